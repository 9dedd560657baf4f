"""How a batch is cut into minibatches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


def shuffled(count: int, size: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """One epoch: all ``count`` units in random order, ``size`` at a time, fewer in the last; 0 is all at once."""
    if not size or size >= count:
        yield np.arange(count)
        return
    order = rng.permutation(count)
    for start in range(0, count, size):
        yield order[start : start + size]


def portions(count: int, parts: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """One epoch in exactly ``parts`` minibatches of sizes that differ by one at most; some empty if units are few."""
    order = rng.permutation(count) if parts > 1 else np.arange(count)
    return np.array_split(order, parts)
