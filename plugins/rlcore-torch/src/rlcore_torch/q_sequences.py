"""Sequences for recurrent Q-learning (Hausknecht & Stone 2015, Kapturowski et al. 2019).

A sequence is a piece with the state that acting had before it. Both networks go through its observations and the one
after them, from that state on; the successor of a row is found among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.batch import ACTIONS, DISCOUNTS, LENGTH, REWARDS, START, STEPS, WEIGHTS, SampleBatch, T, ranges
from rlcore.learning.successors import extended_cuts
from rlcore_torch.columns import Minibatch, pin_columns
from rlcore_torch.samples import Samples
from rlcore_torch.sequences import pack, packing

#: Where the packed outputs of a row, and of its successor, are, int64 ``[n, 1]``.
OWN, AFTER = "own", "after"


class SequenceSamples(Samples):
    """Units are pieces. The first ``burn_in`` rows of a piece, where it does not open an episode, only bring the state
    up to date and are not learnt from; its last row always is."""

    def __init__(
        self,
        observed: Mapping[str, NDArray[Any]],
        masks: Mapping[str, NDArray[Any]],
        batch: SampleBatch,
        devices: Sequence[torch.device],
        burn_in: int,
    ) -> None:
        """``observed`` are the columns of observations that are extended (:mod:`rlcore.learning.successors`), ``masks``
        further columns ``[N, ...]``; ``batch`` has the columns of ``returns.n_step``."""
        super().__init__(batch.pieces, devices)
        # A row that is learnt from may need those before it: every device holds all of them.
        self.columns = [pin_columns(observed, device) for device in devices]
        names = [name for name in (REWARDS, DISCOUNTS, WEIGHTS) if name in batch]
        columns = {name: np.asarray(batch[name], np.float32)[:, None] for name in names} | dict(masks)
        columns[ACTIONS] = np.asarray(batch[ACTIONS], np.int64)[:, None]
        self._rows = [
            {name: torch.tensor(array, device=device) for name, array in columns.items()} for device in devices
        ]
        self._cuts = batch.cuts
        self._extended = extended_cuts(batch)
        self._places = np.arange(len(batch)) + batch.piece_of_row()
        self._steps = np.asarray(batch[STEPS], np.int64)
        opens = batch[T][batch.cuts[START]] == 0
        self._skipped = np.where(opens, 0, np.minimum(burn_in, batch.cuts[LENGTH] - 1))

    def minibatches(self, units: NDArray[np.int64] | None) -> list[Minibatch]:
        shares = np.array_split(self._pieces(units), len(self.columns))
        return [
            self._minibatch(columns, rows, share) if len(share) else {name: column[:0] for name, column in rows.items()}
            for columns, rows, share in zip(self.columns, self._rows, shares, strict=True)
        ]

    def in_order(self, by_row: NDArray[np.float32], units: NDArray[np.int64]) -> NDArray[np.float32]:
        """They are: each device has had the next of the units."""
        return by_row

    def _pieces(self, units: NDArray[np.int64] | None) -> NDArray[np.int64]:
        return np.arange(self._extended.pieces) if units is None else np.asarray(units, np.int64)

    def _minibatch(self, columns: Minibatch, rows: Minibatch, pieces: NDArray[np.int64]) -> Minibatch:
        packed = packing(self._extended, pieces)
        place = np.empty(len(self._extended), np.int64)
        place[packed.rows] = np.arange(len(packed.rows))
        learnt = self._learnt(pieces)
        device = next(iter(rows.values())).device
        index = torch.from_numpy(learnt).to(device)
        found = pack(columns, packed, self._extended.state_in())
        found |= {name: column.index_select(0, index) for name, column in rows.items()}
        for name, at in ((OWN, self._places[learnt]), (AFTER, self._places[learnt] + self._steps[learnt])):
            found[name] = torch.from_numpy(place[at]).to(device)[:, None]
        return found

    def _learnt(self, pieces: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of these pieces that are learnt from, in their order."""
        skipped = self._skipped[pieces]
        return ranges(self._cuts[START][pieces] + skipped, self._cuts[LENGTH][pieces] - skipped)

    def spread(self, by_row: NDArray[np.float32], units: NDArray[np.int64] | None) -> NDArray[np.float32]:
        """Numbers of the rows that are learnt from as numbers of all rows of these pieces, 0 for the others."""
        pieces = self._pieces(units)
        skipped, sizes = self._skipped[pieces], self._cuts[LENGTH][pieces]
        found = np.zeros(int(sizes.sum()), np.float32)
        found[ranges(np.cumsum(sizes) - sizes + skipped, sizes - skipped)] = by_row
        return found


def chosen(outputs: Tensor, places: Tensor) -> Tensor:
    """The rows of ``outputs`` at ``places [n, 1]``."""
    return outputs.index_select(0, places[:, 0])
