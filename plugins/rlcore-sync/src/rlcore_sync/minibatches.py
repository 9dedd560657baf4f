"""How a batch is cut into minibatches. Sizes are rows, whatever the units are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from rlcore.policy_graph import shares_of


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


def portions(count: int, parts: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """One epoch in exactly ``parts`` minibatches of numbers of units that differ by one at most; some empty if few."""
    order = rng.permutation(count) if parts > 1 else np.arange(count)
    return np.array_split(order, parts)
