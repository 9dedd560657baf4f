"""SequenceBuffer: pieces of trajectories with the recurrent states that they begin and end with.

Kapturowski et al. 2019 (R2D2): the state stored is the one that acting had, and a sequence has one priority.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlcore.batch import BATCH_INDEXES, LENGTH, PRIORITIES, START, WEIGHTS, SampleBatch
from rlcore.columns import Array
from rlcore.errors import BatchError
from rlcore_replay.buffer import Buffer
from rlcore_replay.frames import NO_FRAME
from rlcore_replay.priorities import EPSILON, Priorities
from rlcore_replay.ring import Indexes

#: How much of a sequence's priority is the greatest of its rows' errors; the rest is their mean (equation 1 there).
GREATEST = 0.9


class SequenceBuffer(Buffer):
    """The last ``capacity`` pieces, of at most ``length`` rows each.

    ::

        buffer = SequenceBuffer(5_000, length=20, alpha=0.6)
        buffer.add(batch)                                      # as it was sampled, with state_in and last_state
        minibatch = buffer.sample(16, rng, beta=0.4)           # 16 pieces
        buffer.update_priorities(minibatch["batch_indexes"], td_error)

    What is drawn has ``weights`` and ``batch_indexes`` in every row of a piece.
    """

    def __init__(self, capacity: int, length: int, *, alpha: float | None = None, epsilon: float = EPSILON) -> None:
        super().__init__(capacity, alpha=alpha, epsilon=epsilon)
        if length < 1:
            raise ValueError(f"a sequence has at least 1 row, not {length}")
        self.length = length

    def add(self, batch: SampleBatch) -> Indexes:
        """Stores the pieces of ``batch``; their indexes, int64 ``[pieces]``, or of the last ``capacity`` of them.

        The row column ``priorities`` says what new pieces get, where there is one. Raises ``BatchError`` for a piece
        that is too long, which has no state to begin with in its middle.
        """
        sizes = batch.cuts[LENGTH]
        if batch.pieces and int(sizes.max()) > self.length:
            raise BatchError(
                f"a piece of {sizes.max()} rows does not fit into sequences of {self.length}: sample fragments of at "
                f"most {self.length} steps (evaluators.fragment), or store longer sequences (optimizer.sequence_length)"
            )
        try:
            encoded = self._store.encode(batch)
            rows = {name: self._padded(name, column, encoded) for name, column in encoded.rows.items()}
            places = self._store.write(rows, encoded.cuts, encoded.pieces)
        finally:
            self._store.settle()
        if self._priorities is not None:
            own = batch.rows.get(PRIORITIES)
            self._priorities.add(places, None if own is None else of_pieces(own, batch.cuts))
        self.added += batch.pieces
        return places

    def _padded(self, name: str, column: Array, batch: SampleBatch) -> Array:
        """Rows ``[N, ...]`` as ``[pieces, length, ...]``; behind the end of a piece are zeros, and no frames."""
        if (batch.cuts[LENGTH] == self.length).all():
            return column.reshape(batch.pieces, self.length, *column.shape[1:])
        filler = NO_FRAME if name in self._store.frames.names else 0
        padded = np.full((batch.pieces * self.length, *column.shape[1:]), filler, column.dtype)
        within = np.arange(len(batch)) - np.repeat(batch.cuts[START], batch.cuts[LENGTH])
        padded[batch.piece_of_row() * self.length + within] = column
        return padded.reshape(batch.pieces, self.length, *column.shape[1:])

    def take(self, indexes: Indexes, weights: NDArray[np.float32] | None = None) -> SampleBatch:
        padded, cuts = self._store.read(indexes)
        sizes = cuts[LENGTH]
        valid = None if (sizes == self.length).all() else (np.arange(self.length) < sizes[:, None]).reshape(-1)
        rows = {}
        for name, column in padded.items():
            flat = column.reshape(len(indexes) * self.length, *column.shape[2:])
            rows[name] = flat if valid is None else flat[valid]
        self._store.decode(rows, cuts)
        if weights is not None:
            rows |= {WEIGHTS: np.repeat(weights, sizes), BATCH_INDEXES: np.repeat(indexes, sizes)}
        return SampleBatch(rows, {**cuts, START: np.cumsum(sizes) - sizes})

    def _update(self, priorities: Priorities, batch_indexes: Indexes, td_error: ArrayLike) -> None:
        """Rows of one piece lie together; a piece that was drawn several times counts once."""
        items = np.asarray(batch_indexes)
        order = np.argsort(items, kind="stable")
        places, starts, sizes = np.unique(items[order], return_index=True, return_counts=True)
        errors = np.asarray(td_error, np.float64)[order]
        priorities.update(places, of_pieces(errors, {START: starts, LENGTH: sizes}))


def of_pieces(td_error: Array, cuts: Mapping[str, Array]) -> NDArray[np.float64]:
    """One error for each piece from those of its rows ``[N]``: the greatest, and the mean."""
    absolute = np.abs(np.asarray(td_error, np.float64))
    starts = cuts[START]
    mean = np.add.reduceat(absolute, starts) / cuts[LENGTH]
    return GREATEST * np.maximum.reduceat(absolute, starts) + (1.0 - GREATEST) * mean
