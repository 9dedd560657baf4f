"""Gymnasium environments for rlcore: any id, class or vector environment as a ``BatchedEnv``."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlcore_gym.atari import AtariSettings
    from rlcore_gym.atari_seeds import emulator_seeds
    from rlcore_gym.frame_stack import FrameStack, forget_frames
    from rlcore_gym.in_process import InProcessEnv
    from rlcore_gym.parallel import ParallelEnv
    from rlcore_gym.provider import GymProvider
    from rlcore_gym.vector import VectorEnvAdapter

__all__ = [
    "AtariSettings",
    "FrameStack",
    "GymProvider",
    "InProcessEnv",
    "ParallelEnv",
    "VectorEnvAdapter",
    "emulator_seeds",
    "forget_frames",
]

_MODULES = {
    "AtariSettings": "atari",
    "FrameStack": "frame_stack",
    "GymProvider": "provider",
    "InProcessEnv": "in_process",
    "ParallelEnv": "parallel",
    "VectorEnvAdapter": "vector",
    "emulator_seeds": "atari_seeds",
    "forget_frames": "frame_stack",
}


def __getattr__(name: str) -> Any:
    """Imported on use: a worker process needs little of it."""
    if name not in _MODULES:
        raise AttributeError(f"module 'rlcore_gym' has no attribute '{name}'")
    return getattr(importlib.import_module(f"rlcore_gym.{_MODULES[name]}"), name)
