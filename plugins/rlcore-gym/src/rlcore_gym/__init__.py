"""Gymnasium environments for rlcore: any id, class or vector environment as a ``BatchedEnv``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore.lazy import lazily

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

__getattr__, __dir__ = lazily(__name__, _MODULES)
