"""How a batch is cut into minibatches, and learnt from. Sizes are rows, whatever the units are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import MultiAgentBatch
from rlcore.learner import Learner
from rlcore.learnt import Learnt
from rlcore.policy_graph import shares_of


def learn_in_epochs(
    learner: Learner, batch: MultiAgentBatch, epochs: int, size: int, rng: np.random.Generator, devices: int
) -> Learnt:
    """Pins a batch once and goes over it ``epochs`` times in minibatches of ``size`` rows, 0 for all at once.

    Policy after policy; an update that asks for it is the last of its policy. Raises what ``Learner.learn`` does.
    """
    pinned, learnt = learner.pin(batch), Learnt()
    for policy_id, own in batch.items():
        units = learner.graphs[policy_id].minibatch_unit.rows(own)
        minibatches = (one for _ in range(epochs) for one in shuffled(units, size, rng, devices))
        for output in learner.learn_in_turn(policy_id, pinned[policy_id], minibatches):
            learnt.note(policy_id, output.stats, output.rows or 0, output.skipped)
    return learnt


def shuffled(
    rows: NDArray[np.int64], size: int, rng: np.random.Generator, devices: int = 1
) -> Iterator[NDArray[np.int64]]:
    """One epoch: all units, of ``rows [units]`` rows each, in random order; 0 is all at once.

    Units are whole. Laid end to end they are cut behind every ``size`` rows, at the end of the unit before: minibatches
    have ``size`` rows, the last fewer, where units are single rows, and about as many where they are pieces. Each of
    several ``devices`` has as many units in all of them, to within one.
    """
    if not size or size >= int(rows.sum()):
        yield np.arange(len(rows))
        return
    order = _in_turn([rng.permutation(share) for share in shares_of(len(rows), devices)])
    minibatch = (np.cumsum(rows[order]) - 1) // size
    yield from np.split(order, np.flatnonzero(np.diff(minibatch)) + 1)


def _in_turn(shares: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The first of each share, then the second of each, and so on."""
    place = np.concatenate([np.arange(len(share)) for share in shares])
    return np.concatenate(shares)[np.argsort(place, kind="stable")]
