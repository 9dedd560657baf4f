"""Sequences for recurrent Q-learning (:mod:`rlcore.learning.sequences`): how minibatches are made of them, traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.learning.sequences import Sequences
from rlcore.learning.shares import Shares
from rlcore_tf.backend import tf
from rlcore_tf.columns import Minibatch, Specs, column
from rlcore_tf.selection import AFTER, LONGEST, OWN, PieceSelection

#: Columns of rows: by how many rows the successor is away, and whether the row is learnt from.
AWAY, LEARNT = "away", "learnt"


class SequenceSamples(NamedTuple):
    """Samples (:class:`rlcore_tf.selection.Samples`) and the sequences that they are of."""

    tables: list[Minibatch]
    shares: Shares
    sequences: Sequences

    @property
    def units(self) -> int:
        """How many there are in all."""
        return self.sequences.pieces

    def spread(self, by_row: NDArray[np.float32], units: NDArray[np.int64]) -> NDArray[np.float32]:
        """Numbers of the rows that are learnt from, one device after the other, as numbers of all rows of the
        ``units``, 0 for the others."""
        chosen = zip(self.shares.ranges, self.shares.chosen(units), strict=True)
        order = np.concatenate([share.start + own for share, own in chosen])
        spread = self.sequences.spread(by_row, order)
        if np.array_equal(order, units):
            return spread
        place = dict(zip(order.tolist(), np.split(spread, np.cumsum(self.sequences.lengths[order])[:-1]), strict=True))
        return np.concatenate([place[unit] for unit in units.tolist()])


class SequenceSelection(PieceSelection):
    """Of the rows of pieces those that are learnt from, with all observations that networks go through."""

    def __init__(self, observed: Specs, rows: Specs, state_shapes: Sequence[tuple[int, ...]], dtype: Any) -> None:
        rows = {**rows, AWAY: column((), tf.int64), LEARNT: column((), tf.bool)}
        super().__init__(observed, rows, state_shapes, dtype, extended=True)
        self._of_rows = [*rows, OWN, AFTER]

    def __call__(self, table: Minibatch, units: Any) -> Minibatch:
        found = super().__call__(table, units)
        found[AFTER] = found[OWN] + found[AWAY]
        learnt = tf.where(found[LEARNT])[:, 0]
        for name in self._of_rows:
            found[name] = tf.gather(found[name], learnt)
        return {name: tensor for name, tensor in found.items() if name not in (AWAY, LEARNT, LONGEST)}
