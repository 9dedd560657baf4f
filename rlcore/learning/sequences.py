"""Sequences for recurrent Q-learning (Hausknecht & Stone 2015, Kapturowski et al. 2019).

A sequence is a piece with the state that acting had before it. Both networks go through its observations and the one
after them, from that state on; the successor of a row is found among them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import LENGTH, START, STEPS, SampleBatch, T, ranges
from rlcore.learning.successors import extended_cuts


class Sequences:
    """Which rows of the pieces of a batch are learnt from, and where the outputs for them are.

    The first ``burn_in`` rows of a piece, where it does not open an episode, only bring the state up to date and are
    not learnt from; its last row always is.
    """

    def __init__(self, batch: SampleBatch, burn_in: int) -> None:
        """``batch`` has the columns of ``returns.n_step``."""
        self._cuts = batch.cuts
        #: The cuts of extended observations (:mod:`rlcore.learning.successors`).
        self.extended = extended_cuts(batch)
        #: Among extended observations those of the rows, int64 ``[N]``, and of their successors.
        self.own = np.arange(len(batch)) + batch.piece_of_row()
        self.after = self.own + np.asarray(batch[STEPS], np.int64)
        opens = batch[T][batch.cuts[START]] == 0
        #: By piece, how many of its first rows are not learnt from.
        self.skipped = np.where(opens, 0, np.minimum(burn_in, batch.cuts[LENGTH] - 1))

    @property
    def pieces(self) -> int:
        """The number of them."""
        return len(self.skipped)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The rows of each piece."""
        return np.asarray(self._cuts[LENGTH], np.int64)

    def learnt(self, pieces: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of these pieces that are learnt from, in their order."""
        skipped = self.skipped[pieces]
        return ranges(self._cuts[START][pieces] + skipped, self._cuts[LENGTH][pieces] - skipped)

    def spread(self, by_row: NDArray[np.float32], pieces: NDArray[np.int64]) -> NDArray[np.float32]:
        """Numbers of the rows that are learnt from as numbers of all rows of these pieces, 0 for the others."""
        skipped, sizes = self.skipped[pieces], self._cuts[LENGTH][pieces]
        found = np.zeros(int(sizes.sum()), by_row.dtype)
        found[ranges(np.cumsum(sizes) - sizes + skipped, sizes - skipped)] = by_row
        return found
