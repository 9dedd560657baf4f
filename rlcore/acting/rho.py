"""rho that several policy graphs and their actors share: picklable functions of a batch, in numpy."""

from __future__ import annotations

import numpy as np

from rlcore.batch import ADVANTAGES, LAST_VALUE, SampleBatch
from rlcore.returns import discounted_returns


def returns_to_go(batch: SampleBatch, *, gamma: float, normalize: bool) -> SampleBatch:
    """Adds rows ``value_targets``, the discounted returns to go, and ``advantages``, float32 ``[N]``.

    Advantages are the returns; with ``normalize``, where there is more than one row, they are shifted and scaled to
    mean 0 and standard deviation 1 (divided by N) over all rows of ``batch``: a constant baseline. That batch is what
    one evaluator sampled at once, so that it does not matter how an optimizer cuts it into minibatches afterwards;
    each of several evaluators normalises its own samples.
    """
    batch = discounted_returns(batch, gamma)
    if not normalize or len(batch) < 2:
        return batch
    returns = batch[ADVANTAGES].astype(np.float64)
    normalized = (returns - returns.mean()) / (returns.std() + 1e-8)
    return batch.with_rows(**{ADVANTAGES: normalized.astype(np.float32)})


def recorded_returns(batch: SampleBatch, *, gamma: float) -> SampleBatch:
    """Adds rows ``value_targets`` and ``advantages``, both the discounted return to go as it was recorded, float32
    ``[N]``: what would have come after the end of a piece counts as nothing."""
    cuts = {name: column for name, column in batch.cuts.items() if name != LAST_VALUE}
    return discounted_returns(SampleBatch(batch.rows, cuts), gamma)
