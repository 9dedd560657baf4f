"""Workers as Ray actors, on one machine or many. No other package of the kernel imports Ray.

===================== ==================================================================================
module                subject
===================== ==================================================================================
``runtime``           :class:`RayRuntime`: the contract of :mod:`rlcore.runtime.base` on Ray
``session``           this process's connection to Ray: joined, or to a small Ray started for it
``worker``            what runs in the worker's process
``handles``           handles and references on the driver's side
``failures``          exceptions that cross whole, and losses
``sending``           what is sent to workers: objects, and what the driver's program has registered
``evaluator``         ``PolicyEvaluator.remote``
===================== ==================================================================================
"""

from __future__ import annotations

from rlcore.runtime.ray.runtime import RayRuntime
from rlcore.runtime.ray.session import RayConfig

__all__ = ["RayConfig", "RayRuntime"]
