"""Samples pinned on the devices of a graph, a share on each, and the minibatches that are selected from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rlcore.batch import SampleBatch
from rlcore.learning.shares import Shares
from rlcore_torch.columns import Minibatch, pin_columns, select
from rlcore_torch.sequences import pack, packing


class Samples(ABC):
    """Columns by row. Each of several devices holds its share of the units and no other: those of ``shares_of``."""

    def __init__(self, units: int, devices: Sequence[torch.device]) -> None:
        self._shares = Shares(units, len(devices))
        self.columns: list[Minibatch] = []

    @abstractmethod
    def minibatches(self, units: NDArray[np.int64] | None) -> list[Minibatch]:
        """For each device those of ``units`` (all where None) that it holds, maybe none, in the order given."""

    def in_order(self, by_row: NDArray[np.float32], units: NDArray[np.int64]) -> NDArray[np.float32]:
        """Numbers by row of ``minibatches(units)``, one device after the other, in the order of ``units`` (rows)."""
        return self._shares.in_order(by_row, units)


class Ahead(NamedTuple):
    """Columns that were computed of pinned rows before minibatches were made of them, when targets had moved ``at``
    times."""

    columns: Minibatch
    at: int


class RowSamples(Samples):
    """Units are rows."""

    def __init__(self, columns: Mapping[str, NDArray[Any]], devices: Sequence[torch.device]) -> None:
        super().__init__(len(next(iter(columns.values()))), devices)
        self.columns = [
            pin_columns({name: column[share.start : share.stop] for name, column in columns.items()}, device)
            for share, device in zip(self._shares.ranges, devices, strict=True)
        ]

    def minibatches(self, units: NDArray[np.int64] | None) -> list[Minibatch]:
        return [select(columns, own) for columns, own in zip(self.columns, self._shares.of_each(units), strict=True)]

    def split(self, rows: int, ahead: Ahead) -> list[OnOneDevice]:
        """Views of so many rows each, one behind the other, of samples that are on one device."""
        (columns,) = self.columns
        parts = zip(_split(columns, rows), _split(ahead.columns, rows), strict=False)
        return [OnOneDevice(own, Ahead(computed, ahead.at)) for own, computed in parts]


def _split(columns: Minibatch, rows: int) -> Iterator[Minibatch]:
    """Views of so many rows each; without end where there is no column."""
    parts = [column.reshape(-1, rows, *column.shape[1:]).unbind() for column in columns.values()]
    return (dict(zip(columns, part, strict=True)) for part in (zip(*parts, strict=True) if parts else repeat(())))


class OnOneDevice(Samples):
    """Rows that are on their device already."""

    def __init__(self, columns: Minibatch, ahead: Ahead) -> None:
        one = next(iter(columns.values()))
        super().__init__(one.shape[0], [one.device])
        self.columns = [columns]
        self._ahead = ahead

    def ahead(self, moves: int, units: NDArray[np.int64] | None) -> Minibatch:
        """What was computed ahead of these units, where it still holds after so many moves of the targets."""
        return select(self._ahead.columns, units) if self._ahead.at == moves else {}

    def minibatches(self, units: NDArray[np.int64] | None) -> list[Minibatch]:
        return [select(self.columns[0], units)]


class PieceSamples(Samples):
    """Units are pieces; minibatches are packed (:mod:`rlcore_torch.sequences`)."""

    def __init__(
        self, columns: Mapping[str, NDArray[Any]], devices: Sequence[torch.device], batch: SampleBatch
    ) -> None:
        super().__init__(batch.pieces, devices)
        whole = SampleBatch({**columns}, batch.cuts)
        parts = [whole] if len(devices) == 1 else [whole.take_pieces(share) for share in self._shares.ranges]
        self.columns = [pin_columns(part.rows, device) for part, device in zip(parts, devices, strict=True)]
        # The cuts alone: nothing else of the batch is read again.
        self._cuts = [SampleBatch({"rows": np.empty(len(part))}, part.cuts) for part in parts]

    def minibatches(self, units: NDArray[np.int64] | None) -> list[Minibatch]:
        return [
            self._packed(columns, cuts, np.arange(cuts.pieces) if own is None else np.asarray(own, np.int64))
            for columns, cuts, own in zip(self.columns, self._cuts, self._shares.of_each(units), strict=True)
        ]

    @staticmethod
    def _packed(columns: Minibatch, cuts: SampleBatch, pieces: NDArray[np.int64]) -> Minibatch:
        if not len(pieces):
            return {name: column[:0] for name, column in columns.items()}
        return pack(columns, packing(cuts, pieces), cuts.state_in())
