"""How much memory a replay buffer will take, before there is anything in it."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from rlcore.columns import leaf_spaces
from rlcore.graph_spec import GraphSpec
from rlcore_replay.stacks import SPARE, may_be_stack

#: Of a row, beside its observations and its action: rewards, discounts, flags, and what says where it comes from.
BESIDE = 64
#: Of an item with a priority, the sums above it included.
PRIORITY = 8.3


class Bytes(NamedTuple):
    """``most``, and ``least`` where observations that may be stacks of frames turn out to be."""

    least: int
    most: int

    def __str__(self) -> str:
        return in_words(self.most) if self.least == self.most else f"{in_words(self.least)} to {in_words(self.most)}"


def bytes_for(spec: GraphSpec, capacity: int, *, prioritized: bool = False) -> Bytes:
    """What ``capacity`` transitions of a policy take, each with its successor.

    Columns that acting or postprocessing add are not known beforehand, and taken for few.
    """
    least = most = _row_bytes(spec.action_space) + BESIDE + (PRIORITY if prioritized else 0.0)
    for space in leaf_spaces(spec.observation_space).values():
        shape, dtype = tuple(space.shape or ()), np.dtype(space.dtype)
        whole = 2.0 * _row_bytes(space)
        most += whole
        least += whole
        if may_be_stack(shape, dtype):
            numbers = 2 * 4 * shape[0]
            least += whole / (2 * shape[0]) * (1.0 + SPARE) + numbers - whole
    return Bytes(int(capacity * least), int(capacity * most))


def _row_bytes(space: gymnasium.Space[Any]) -> float:
    leaves = leaf_spaces(space).values()
    return float(sum(np.dtype(leaf.dtype).itemsize * math.prod(leaf.shape or ()) for leaf in leaves))


def memory_of_the_machine() -> int | None:
    """Bytes that this process may have at all, or None where that is not known: all there is, or a container's part."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
    for bound in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(bound).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return total


def in_words(count: float) -> str:
    """``4.9 MB``"""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 999.5 or unit == "GB":
            return f"{count:.3g} {unit}" if count < 999.5 else f"{count:,.0f} {unit}"
        count /= 1000
    raise AssertionError("unreachable")
