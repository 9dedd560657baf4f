"""Pieces of trajectories in time order with the observation after each, as losses with V-trace read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rlcore.batch import LENGTH, START, SampleBatch, ranges
from rlcore.returns import passes_for
from rlcore_torch.columns import Minibatch, pin_columns, select
from rlcore_torch.q_sequences import AFTER, OWN
from rlcore_torch.samples import Samples
from rlcore_torch.sequences import pack, packing

#: A tensor with as many elements as a scan over the longest piece has passes. What is in it is of no use: recordings
#: (:mod:`rlcore_torch.recording`) go by the shapes of their inputs.
PASSES = "passes"


class _Share(NamedTuple):
    """Of one device: the ``observed`` columns ``[rows + pieces, ...]``, the ``rows`` ``[rows, ...]``, and the cuts of
    both tables as batches without any other columns."""

    observed: Minibatch
    rows: Minibatch
    cuts: SampleBatch
    extended: SampleBatch


class _Observed(NamedTuple):
    """What the networks go through, and where in that a row is and its successor, ``[rows]`` each."""

    columns: Minibatch
    own: NDArray[np.int64]
    after: NDArray[np.int64]


class VTraceSamples(Samples):
    """Units are pieces. A minibatch has its pieces one after the other, each in time order.

    The networks go through the ``observed`` columns: the observations of a piece and the one after it. The columns
    ``OWN`` and ``AFTER`` say where the outputs for a row and for its successor are.
    """

    def __init__(
        self,
        observed: Mapping[str, NDArray[Any]],
        columns: Mapping[str, NDArray[Any]],
        batch: SampleBatch,
        devices: Sequence[torch.device],
    ) -> None:
        """``observed`` are columns of extended observations (:mod:`rlcore.learning.successors`), ``[N + pieces, ...]``,
        ``columns`` those of the rows ``[N, ...]``."""
        super().__init__(batch.pieces, devices)
        self._parts = [
            _share(observed, columns, batch, share, device)
            for share, device in zip(self._shares.ranges, devices, strict=True)
        ]
        self._whole: list[Minibatch] | None = None

    def minibatches(self, units: NDArray[np.int64] | None) -> list[Minibatch]:
        if units is None:
            # Epochs over all of it make it once.
            self._whole = self._whole or [self._minibatch(part, None) for part in self._parts]
            return list(self._whole)
        return [self._minibatch(part, own) for part, own in zip(self._parts, self._shares.of_each(units), strict=True)]

    def _minibatch(self, part: _Share, pieces: NDArray[np.int64] | None) -> Minibatch:
        if not part.cuts.pieces or (pieces is not None and not len(pieces)):
            return {name: column[:0] for name, column in part.rows.items()}
        chosen = np.arange(part.cuts.pieces) if pieces is None else np.asarray(pieces, np.int64)
        sizes = part.cuts.cuts[LENGTH][chosen]
        rows = None if pieces is None else ranges(part.cuts.cuts[START][chosen], sizes)
        observed = self._observed(part, pieces, chosen)
        found = {**observed.columns, **select(part.rows, rows)}
        device = next(iter(part.rows.values())).device
        for name, index in ((OWN, observed.own), (AFTER, observed.after)):
            found[name] = torch.from_numpy(index).to(device)[:, None]
        found[PASSES] = torch.empty(passes_for(int(sizes.max())), device=device)
        return found

    def _observed(self, part: _Share, pieces: NDArray[np.int64] | None, chosen: NDArray[np.int64]) -> _Observed:
        """Of the ``pieces``, all where that is None: the ``chosen``."""
        starts, sizes = part.extended.cuts[START][chosen], part.cuts.cuts[LENGTH][chosen]
        own = np.arange(int(sizes.sum())) + np.repeat(np.arange(len(chosen)), sizes)
        columns = select(part.observed, None if pieces is None else ranges(starts, sizes + 1))
        return _Observed(columns, own, own + 1)


class PackedVTraceSamples(VTraceSamples):
    """For recurrent networks: their ``observed`` columns are packed (:mod:`rlcore_torch.sequences`)."""

    def _observed(self, part: _Share, pieces: NDArray[np.int64] | None, chosen: NDArray[np.int64]) -> _Observed:
        starts, sizes = part.extended.cuts[START][chosen], part.cuts.cuts[LENGTH][chosen]
        packed = packing(part.extended, chosen)
        at = np.empty(len(part.extended), np.int64)
        at[packed.rows] = np.arange(len(packed.rows))
        own, after = (at[ranges(starts + later, sizes)] for later in (0, 1))
        return _Observed(pack(part.observed, packed, part.extended.state_in()), own, after)


def _share(
    observed: Mapping[str, NDArray[Any]],
    columns: Mapping[str, NDArray[Any]],
    batch: SampleBatch,
    pieces: range,
    device: torch.device,
) -> _Share:
    sizes = batch.cuts[LENGTH]
    ends = np.concatenate([[0], np.cumsum(sizes)])
    first, last = int(ends[pieces.start]), int(ends[pieces.stop])
    cuts = {name: column[pieces.start : pieces.stop] for name, column in batch.cuts.items()}
    cuts[START] = cuts[START] - first
    longer = {START: cuts[START] + np.arange(len(pieces)), LENGTH: cuts[LENGTH] + 1}
    rows = last - first
    return _Share(
        pin_columns({n: c[first + pieces.start : last + pieces.stop] for n, c in observed.items()}, device),
        pin_columns({name: column[first:last] for name, column in columns.items()}, device),
        SampleBatch({"rows": np.empty(rows)}, cuts),
        SampleBatch({"rows": np.empty(rows + len(pieces))}, {**cuts, **longer}),
    )
