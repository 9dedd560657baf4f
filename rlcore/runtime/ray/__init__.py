"""Workers as Ray actors, on one machine or many. No other package of the kernel imports Ray.

===================== ==================================================================================
module                subject
===================== ==================================================================================
``runtime``           :class:`RayRuntime`: the contract of :mod:`rlcore.runtime.base` on Ray
``session``           this process's connection to Ray: joined, or to a small Ray started for it
``worker``            what runs in the worker's process
``handles``           handles and references on the driver's side
``failures``          exceptions that cross whole, and losses
``remote``            ``PolicyEvaluator.remote`` and ``Trainer.remote``
===================== ==================================================================================
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlcore.runtime.ray.runtime import RayRuntime as RayRuntime
    from rlcore.runtime.ray.session import RayConfig as RayConfig

#: Imported when they are asked for: workers import this package too, and need neither.
_HOMES = {"RayConfig": "session", "RayRuntime": "runtime"}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
