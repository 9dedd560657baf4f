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
