"""The shared table of noise, and sums of it that are exact, whoever adds them up in whatever order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: The numbers of the table are multiples of this.
QUANTUM = 2.0**-16

#: No number of the table is larger: of a normal, one in 10^15 would be.
LARGEST = 8.0 - QUANTUM

#: Weights of a sum are integers whose sizes add up to this at most: then a float64 holds every partial sum exactly,
#: as 2^34 * 2^3 / 2^-16 is 2^53.
WEIGHTS_SUM = 2**34

#: Numbers that are turned to float64 at once.
_AT_ONCE = 1 << 20


def noise_table(size: int, seed: int) -> NDArray[np.float32]:
    """``size`` standard normals, float32, rounded to multiples of :data:`QUANTUM`.

    Rounding moves a number by less than 1e-5. Of so rounded numbers, each of 20 bits at most, sums with integer weights
    need no rounding in float64 as long as the sizes of the weights add up to :data:`WEIGHTS_SUM` at most.
    """
    table = np.random.default_rng(seed).standard_normal(size, dtype=np.float32)
    table *= np.float32(1.0 / QUANTUM)
    np.rint(table, out=table)
    table *= np.float32(QUANTUM)
    np.clip(table, -LARGEST, LARGEST, out=table)
    table.flags.writeable = False
    return table


def windows(table: NDArray[np.float32], indexes: NDArray[np.int64], size: int) -> NDArray[np.float32]:
    """``size`` numbers from each of the ``indexes`` on, float32 ``[len(indexes), size]``."""
    return np.asarray(np.lib.stride_tricks.sliding_window_view(table, size)[indexes])


def weighted_sum(
    table: NDArray[np.float32], indexes: NDArray[np.int64], weights: NDArray[np.int64], size: int
) -> NDArray[np.float64]:
    """``sum_i weights[i] * table[indexes[i] : indexes[i] + size]``, float64 ``[size]``, without any rounding.

    So parts of it may be added up in any order. ``weights`` are integers whose sizes add up to :data:`WEIGHTS_SUM` at
    most.
    """
    total = np.zeros(size)
    kept = np.flatnonzero(weights)
    step = max(1, _AT_ONCE // max(size, 1))
    for start in range(0, len(kept), step):
        part = kept[start : start + step]
        total += weights[part].astype(np.float64) @ windows(table, indexes[part], size).astype(np.float64)
    return total
