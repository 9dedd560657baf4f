"""Random numbers that are functions of their arguments: drawn for any rows at once, with nothing to save but counters.

The finaliser of SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint64]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def seed_bits(seed: int | None) -> int:
    """64 bits from a seed; fresh ones where it is None."""
    return int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


def mixed(bits: Any, counter: Any) -> Bits:
    """64 random bits for each pair of ``bits`` and ``counter``, which broadcast."""
    with np.errstate(over="ignore"):
        z = (np.asarray(bits, np.uint64) ^ np.asarray(counter).astype(np.uint64)) + _STEP
        z = (z ^ (z >> np.uint64(30))) * _FIRST
        z = (z ^ (z >> np.uint64(27))) * _SECOND
        return np.asarray(z ^ (z >> np.uint64(31)), np.uint64)


def episode_seeds(seed: int, slots: NDArray[Any], episodes: NDArray[Any]) -> Bits:
    """The seeds of episodes, uint64 ``[n]``: slot 3 gets the same ones however many slots there are."""
    return mixed(mixed(np.uint64(seed), slots), episodes)


def uniform(seeds: Bits, number: int, low: float = 0.0, high: float = 1.0) -> NDArray[np.float64]:
    """The draw ``number`` of each seed: float64 ``[n]`` in ``[low, high)``."""
    unit = (mixed(seeds, number) >> np.uint64(11)) * 2.0**-53
    return np.asarray(low + (high - low) * unit, np.float64)


def below(seeds: Bits, number: int, n: int) -> NDArray[np.int64]:
    """The draw ``number`` of each seed: int64 ``[n]`` from 0 to ``n - 1``."""
    return np.asarray(uniform(seeds, number, 0.0, float(n)), np.int64)
