"""Priorities that whoever samples gives to rows, so that they need not be computed where they are stored."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import DISCOUNTS, LENGTH, PRIORITIES, REWARDS, START, STEPS, SampleBatch


def with_priorities(
    batch: SampleBatch, taken: NDArray[np.float32], best: NDArray[np.float32], last_best: NDArray[np.float32]
) -> SampleBatch:
    """Adds row ``priorities``, the absolute n-step temporal difference, float32 ``[N]`` (Horgan et al. 2018).

    ``taken [N]`` are the values of the actions that were taken, ``best [N]`` what the rows' observations and
    ``last_best [pieces]`` what those after the pieces are worth. ``batch`` has the columns of ``returns.n_step``.
    """
    size = batch.cuts[LENGTH]
    left = np.repeat(batch.cuts[START] + size, size) - np.arange(len(batch))
    past = left <= batch[STEPS]
    successor = np.minimum(np.arange(len(batch)) + batch[STEPS], max(len(batch) - 1, 0))
    after = np.where(past, last_best[batch.piece_of_row()], best[successor])
    error = batch[REWARDS] + batch[DISCOUNTS] * after - taken
    return batch.with_rows(**{PRIORITIES: np.abs(error).astype(np.float32)})
