"""Gymnasium environments for rlcore: any id, class or vector environment as a ``BatchedEnv``."""

from rlcore_gym.in_process import InProcessEnv
from rlcore_gym.provider import GymProvider
from rlcore_gym.vector import VectorEnvAdapter

__all__ = ["GymProvider", "InProcessEnv", "VectorEnvAdapter"]
