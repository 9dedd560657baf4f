"""Batches to store: trajectories of counters, whose rows say which they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlcore.algorithm import Algorithm
from rlcore.batch import SampleBatch


def pieces(*lengths: int, first: int = 0, ends: str = "", eps_id: int = 0, t: int = 0) -> SampleBatch:
    """Pieces of those lengths, one an episode, whose observations count on from ``first``: ``[n, 1]``.

    The letters of ``ends`` say how each ends: ``t``erminated, truncated (``l``), or not at all (``-``).
    """
    rows, count = sum(lengths), len(lengths)
    sizes, ends = np.array(lengths), ends.ljust(count, "-")
    last = np.cumsum(sizes) - 1
    terminated, truncated = np.zeros(rows, bool), np.zeros(rows, bool)
    terminated[last], truncated[last] = [end == "t" for end in ends], [end == "l" for end in ends]
    # Each piece takes one number more than it has rows: its last observation.
    numbers = first + np.arange(rows) + np.repeat(np.arange(count), sizes)
    return SampleBatch(
        {
            "obs": numbers[:, None].astype(np.float32),
            "actions": numbers % 3,
            "rewards": np.ones(rows, np.float32),
            "terminated": terminated,
            "truncated": truncated,
            "t": np.concatenate([np.arange(size) for size in lengths]).astype(np.int32) + np.int32(t),
            "env_step": np.concatenate([np.arange(size) for size in lengths]) + t,
        },
        {
            "start": np.cumsum(sizes) - sizes,
            "length": sizes,
            "slot": np.arange(count, dtype=np.int32),
            "agent_id": np.zeros(count, np.int64),
            "eps_id": eps_id + np.arange(count),
            "policy_version": np.zeros(count, np.int64),
            "bootstrap": ~terminated[last],
            "last_obs": (numbers[last] + 1)[:, None].astype(np.float32),
        },
    )


def numbers(batch: SampleBatch) -> list[int]:
    """Which rows they are."""
    return [int(number) for number in batch["obs"][:, 0]]


def equal(one: Any, other: Any) -> bool:
    """Whether two trees of dicts, lists, arrays and numbers are, bit by bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    return bool(one == other)


class LinearDQN(Algorithm):
    """Q-learning in NumPy, by replay."""

    policy_graph = "rlcore.testing.linear_q:LinearQ"
    optimizer = "replay"
    evaluators = {"envs": 2, "fragment": 8}
