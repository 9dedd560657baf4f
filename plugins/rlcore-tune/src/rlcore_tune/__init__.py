"""Search for the settings of any algorithm: ASHA, HyperBand and population based training, on Ray Tune.

What is exported here is imported when it is first used: Ray Tune takes seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore.lazy import lazily

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

_MODULES = {
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

__all__ = sorted(_MODULES)

__getattr__, __dir__ = lazily(__name__, _MODULES)
