"""Where the randomness of a run comes from: one seed, and an independent stream for each purpose."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What a stream of random numbers is for. Saved runs rely on the numbers."""

    GRAPH = 0
    OPTIMIZER = 1
    EVALUATOR = 2
    EVALUATION = 3
    ACTING = 4


def seed_for(seed: int, purpose: Purpose, index: int = 0) -> np.random.SeedSequence:
    """The seed of the ``index``-th user of a purpose: the same in every process, distinct from all others."""
    return np.random.SeedSequence(seed, spawn_key=(int(purpose), index))


def seed_sequence(given: np.random.Generator | np.random.SeedSequence | int | None) -> np.random.SeedSequence:
    """The seed that ``given`` stands for: of a generator some of its numbers, of None fresh entropy."""
    if isinstance(given, np.random.Generator):
        return np.random.SeedSequence(given.integers(2**32, size=4).tolist())
    return given if isinstance(given, np.random.SeedSequence) else np.random.SeedSequence(given)
