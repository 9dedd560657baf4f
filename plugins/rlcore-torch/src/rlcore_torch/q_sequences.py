"""Sequences for recurrent Q-learning (:mod:`rlcore.learning.sequences`) as packed tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.batch import ACTIONS, DISCOUNTS, REWARDS, WEIGHTS, SampleBatch
from rlcore.learning.sequences import Sequences
from rlcore_torch.columns import Minibatch, in_precision, pin_columns
from rlcore_torch.samples import Samples
from rlcore_torch.sequences import pack, packing

#: Where the packed outputs of a row, and of its successor, are, int64 ``[n, 1]``.
OWN, AFTER = "own", "after"


class SequenceSamples(Samples):
    """Units are pieces."""

    def __init__(
        self,
        observed: Mapping[str, NDArray[Any]],
        masks: Mapping[str, NDArray[Any]],
        batch: SampleBatch,
        devices: Sequence[torch.device],
        burn_in: int,
        dtype: torch.dtype,
    ) -> None:
        """``observed`` are the columns of observations that are extended (:mod:`rlcore.learning.successors`), ``masks``
        further columns ``[N, ...]``; ``batch`` has the columns of ``returns.n_step``."""
        super().__init__(batch.pieces, devices)
        # A row that is learnt from may need those before it: every device holds all of them.
        self.columns = [pin_columns(observed, device) for device in devices]
        names = [name for name in (REWARDS, DISCOUNTS, WEIGHTS) if name in batch]
        columns = {name: np.asarray(batch[name], np.float32)[:, None] for name in names} | dict(masks)
        columns[ACTIONS] = np.asarray(batch[ACTIONS], np.int64)[:, None]
        columns = in_precision(columns, dtype)
        self._rows = [
            {name: torch.tensor(array, device=device) for name, array in columns.items()} for device in devices
        ]
        self._sequences = Sequences(batch, burn_in)

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
        return np.arange(self._sequences.pieces) if units is None else np.asarray(units, np.int64)

    def _minibatch(self, columns: Minibatch, rows: Minibatch, pieces: NDArray[np.int64]) -> Minibatch:
        own = self._sequences
        packed = packing(own.extended, pieces)
        place = np.empty(len(own.extended), np.int64)
        place[packed.rows] = np.arange(len(packed.rows))
        learnt = own.learnt(pieces)
        device = next(iter(rows.values())).device
        index = torch.from_numpy(learnt).to(device)
        found = pack(columns, packed, own.extended.state_in())
        found |= {name: column.index_select(0, index) for name, column in rows.items()}
        for name, at in ((OWN, own.own[learnt]), (AFTER, own.after[learnt])):
            found[name] = torch.from_numpy(place[at]).to(device)[:, None]
        return found

    def spread(self, by_row: NDArray[np.float32], units: NDArray[np.int64] | None) -> NDArray[np.float32]:
        """Numbers of the rows that are learnt from as numbers of all rows of these pieces, 0 for the others."""
        return self._sequences.spread(by_row, self._pieces(units))


def chosen(outputs: Tensor, places: Tensor) -> Tensor:
    """The rows of ``outputs`` at ``places [n, 1]``."""
    return outputs.index_select(0, places[:, 0])
