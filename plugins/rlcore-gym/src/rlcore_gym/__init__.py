"""Gymnasium environments for rlcore: any id, class or vector environment as a ``BatchedEnv``."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlcore_gym.in_process import InProcessEnv
    from rlcore_gym.parallel import ParallelEnv
    from rlcore_gym.provider import GymProvider
    from rlcore_gym.vector import VectorEnvAdapter

__all__ = ["GymProvider", "InProcessEnv", "ParallelEnv", "VectorEnvAdapter"]

_MODULES = {
    "GymProvider": "provider",
    "InProcessEnv": "in_process",
    "ParallelEnv": "parallel",
    "VectorEnvAdapter": "vector",
}


def __getattr__(name: str) -> Any:
    """Imported on use: a worker process needs little of it."""
    if name not in _MODULES:
        raise AttributeError(f"module 'rlcore_gym' has no attribute '{name}'")
    return getattr(importlib.import_module(f"rlcore_gym.{_MODULES[name]}"), name)
