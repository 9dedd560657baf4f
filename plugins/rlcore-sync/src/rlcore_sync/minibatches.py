"""How a batch is cut into minibatches. Sizes are rows, whatever the units are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


def shuffled(rows: NDArray[np.int64], size: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """One epoch: all units, of ``rows [units]`` rows each, in random order; 0 is all at once.

    Units are whole. Laid end to end they are cut behind every ``size`` rows, at the end of the unit before: minibatches
    have ``size`` rows, the last fewer, where units are single rows, and about as many where they are pieces.
    """
    if not size or size >= int(rows.sum()):
        yield np.arange(len(rows))
        return
    order = rng.permutation(len(rows))
    minibatch = (np.cumsum(rows[order]) - 1) // size
    yield from np.split(order, np.flatnonzero(np.diff(minibatch)) + 1)


def portions(count: int, parts: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """One epoch in exactly ``parts`` minibatches of numbers of units that differ by one at most; some empty if few."""
    order = rng.permutation(count) if parts > 1 else np.arange(count)
    return np.array_split(order, parts)
