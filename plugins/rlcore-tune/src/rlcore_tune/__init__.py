"""Search for the settings of any algorithm: ASHA, HyperBand and population based training, on Ray Tune.

What is exported here is imported when it is first used: Ray Tune takes seconds.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlcore_tune.config import SearchConfig as SearchConfig
    from rlcore_tune.config import parse_search as parse_search
    from rlcore_tune.config import read_search as read_search
    from rlcore_tune.schedulers import ASHA as ASHA
    from rlcore_tune.schedulers import PBT as PBT
    from rlcore_tune.schedulers import HyperBand as HyperBand
    from rlcore_tune.schedulers import NoScheduler as NoScheduler
    from rlcore_tune.search import Search as Search
    from rlcore_tune.search import SearchResult as SearchResult

_HOMES = {
    "ASHA": "schedulers",
    "HyperBand": "schedulers",
    "NoScheduler": "schedulers",
    "PBT": "schedulers",
    "Search": "search",
    "SearchConfig": "config",
    "SearchResult": "search",
    "parse_search": "config",
    "read_search": "config",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
