"""Pieces of different lengths as one packed sequence: step by step, the longest piece first. There is no padding.

The rows of a packed minibatch are ordered by step, and within a step by piece: first the first rows of all pieces, then
the second rows of those that have one, and so on. Losses are sums over rows, which no order matters to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.batch import LENGTH, START, STATE_IN, SampleBatch
from rlcore.policy_graph import State
from rlcore_torch.columns import Minibatch, copied

#: The number of pieces that have a row at each step, int64 ``[steps]``, not increasing; on the host.
BATCH_SIZES = "batch_sizes"


class Packing(NamedTuple):
    """``rows [m]`` and ``pieces [k]`` index a batch in packed order; ``batch_sizes`` is ``[steps]``."""

    rows: NDArray[np.int64]
    pieces: NDArray[np.int64]
    batch_sizes: NDArray[np.int64]


def packing(batch: SampleBatch, pieces: NDArray[np.int64]) -> Packing:
    """Of the pieces at these indexes, one at least; each has a row at least."""
    starts, lengths = batch.cuts[START][pieces], batch.cuts[LENGTH][pieces]
    order = np.argsort(-lengths, kind="stable")
    steps = np.arange(int(lengths[order[0]]))
    present = steps[:, None] < lengths[order]
    return Packing((starts[order] + steps[:, None])[present], pieces[order], present.sum(axis=1))


def pack(columns: Minibatch, packed: Packing, state: Sequence[NDArray[np.float32]]) -> Minibatch:
    """The rows of ``columns`` in packed order, with the recurrent ``state`` of the batch's pieces before each."""
    device = next(iter(columns.values())).device
    index = torch.from_numpy(packed.rows).to(device)
    rows = {name: column.index_select(0, index) for name, column in columns.items()}
    return with_state(rows, tuple(part[packed.pieces] for part in state), packed.batch_sizes)


def with_state(inputs: Minibatch, state: State, batch_sizes: NDArray[np.int64]) -> Minibatch:
    """``inputs`` in packed order, with the recurrent state ``[pieces, ...]`` before the first row of each piece."""
    device = next(iter(inputs.values())).device
    parts = {f"{STATE_IN}.{i}": copied(part, device) for i, part in enumerate(state)}
    return {**inputs, **parts, BATCH_SIZES: torch.from_numpy(batch_sizes)}


def state_of(inputs: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
    """The recurrent state that ``with_state`` put there."""
    count = sum(name.startswith(f"{STATE_IN}.") for name in inputs)
    return tuple([inputs[f"{STATE_IN}.{i}"] for i in range(count)])
