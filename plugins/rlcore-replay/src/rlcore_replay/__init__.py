"""Replay buffers, and the optimizer that learns from them."""

from rlcore_replay.buffer import ReplayBuffer
from rlcore_replay.replay import Replay
from rlcore_replay.sum_tree import SumTree

__all__ = ["Replay", "ReplayBuffer", "SumTree"]
