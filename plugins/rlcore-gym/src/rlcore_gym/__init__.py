"""Gymnasium environments for rlcore: any id, class or vector environment as a ``BatchedEnv``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore.lazy import lazily

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

__getattr__, __dir__ = lazily(__name__, _MODULES)
