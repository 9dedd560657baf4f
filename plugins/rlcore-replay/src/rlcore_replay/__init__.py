"""Replay buffers, and the optimizer that learns from them."""

from rlcore_replay.buffer import Buffer, ReplayBuffer
from rlcore_replay.config import PrioritizedConfig
from rlcore_replay.hindsight import Hindsight, HindsightBuffer, Strategy, relabel
from rlcore_replay.memory_figure import bytes_for
from rlcore_replay.pace import LearningPace
from rlcore_replay.replay import Replay
from rlcore_replay.sequences import SequenceBuffer
from rlcore_replay.sum_tree import SumTree

__all__ = [
    "Buffer",
    "Hindsight",
    "HindsightBuffer",
    "LearningPace",
    "PrioritizedConfig",
    "Replay",
    "ReplayBuffer",
    "SequenceBuffer",
    "Strategy",
    "SumTree",
    "bytes_for",
    "relabel",
]
