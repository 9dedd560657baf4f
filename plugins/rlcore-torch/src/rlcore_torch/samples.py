"""Samples pinned on the devices of a graph, and the minibatches that are selected from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlcore.batch import SampleBatch
from rlcore_torch.columns import Minibatch, pin_columns, select
from rlcore_torch.sequences import pack, packing


class Samples(ABC):
    """Columns by row, on each of several devices."""

    def __init__(self, columns: Mapping[str, NDArray[Any]], devices: Sequence[torch.device]) -> None:
        self.columns: list[Minibatch] = pin_columns(columns, devices)

    @abstractmethod
    def minibatches(self, units: NDArray[np.int64] | None) -> list[Minibatch]:
        """A minibatch of ``units`` (all where None) as a share for each device; those without a row are left out."""


class RowSamples(Samples):
    """Units are rows."""

    def minibatches(self, units: NDArray[np.int64] | None) -> list[Minibatch]:
        return select(self.columns, units)


class PieceSamples(Samples):
    """Units are pieces; minibatches are packed (:mod:`rlcore_torch.sequences`)."""

    def __init__(
        self, columns: Mapping[str, NDArray[Any]], devices: Sequence[torch.device], batch: SampleBatch
    ) -> None:
        super().__init__(columns, devices)
        # The cuts alone: nothing else of the batch is read again.
        self._cuts = SampleBatch({"rows": np.empty(len(batch))}, batch.cuts)

    def minibatches(self, units: NDArray[np.int64] | None) -> list[Minibatch]:
        pieces = np.arange(self._cuts.pieces) if units is None else np.asarray(units, np.int64)
        shares = np.array_split(pieces, len(self.columns))
        state = self._cuts.state_in()
        return [
            pack(columns, packing(self._cuts, share), state)
            for columns, share in zip(self.columns, shares, strict=True)
            if len(share)
        ]
