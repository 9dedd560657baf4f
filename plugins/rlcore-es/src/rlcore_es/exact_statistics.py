"""Statistics of observations that merge to the same numbers, bit for bit, in whatever order and groups they are merged.

Sums of floats depend on the order, sums of integers do not: a float is an integer times a power of two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.sampling.filters import FilterDelta

#: Every finite float64 is a multiple of ``2**-_BITS``; squares are counted in ``2**-(2 * _BITS)``.
_BITS = 1074


@dataclass(frozen=True)
class ExactStatistics:
    """Of ``count`` observations of ``shape``, number by number, the sums and the sums of squares, exactly."""

    shape: tuple[int, ...]
    count: int
    sums: tuple[int, ...]
    squares: tuple[int, ...]

    @classmethod
    def of(cls, delta: FilterDelta) -> ExactStatistics | None:
        """What a filter has seen; None where that is nothing."""
        if not delta or not delta["count"]:
            return None
        count, means = int(delta["count"]), _integers(delta["mean"])
        deviations = _integers(delta["m2"])
        squares = tuple((m2 << _BITS) + count * mean * mean for mean, m2 in zip(means, deviations, strict=True))
        return cls(np.shape(delta["mean"]), count, tuple(count * mean for mean in means), squares)

    def merged(self, other: ExactStatistics) -> ExactStatistics:
        """Of both together."""
        return ExactStatistics(
            self.shape,
            self.count + other.count,
            tuple(map(int.__add__, self.sums, other.sums)),
            tuple(map(int.__add__, self.squares, other.squares)),
        )

    def since(self, before: ExactStatistics | None) -> ExactStatistics:
        """Of what has been added to ``before``."""
        if before is None:
            return self
        return ExactStatistics(
            self.shape,
            self.count - before.count,
            tuple(map(int.__sub__, self.sums, before.sums)),
            tuple(map(int.__sub__, self.squares, before.squares)),
        )

    def delta(self) -> FilterDelta:
        """As a filter takes it in: each number correctly rounded from the exact one."""
        if not self.count:
            return {}
        scale = self.count << _BITS
        means = [total / scale for total in self.sums]
        # count * squares - sums**2 is count times the sum of squared deviations.
        twice = self.count << (2 * _BITS)
        m2 = [
            max(self.count * square - total * total, 0) / twice
            for total, square in zip(self.sums, self.squares, strict=True)
        ]
        return {"count": self.count, "mean": _array(means, self.shape), "m2": _array(m2, self.shape)}


#: ``{policy_id: {leaf: what its filter has seen}}``.
Statistics = dict[str, dict[str, ExactStatistics]]


def exact(deltas: Mapping[str, Mapping[str, FilterDelta]]) -> Statistics:
    """Of all filters of an evaluator, those that have seen something."""
    found = {name: {leaf: ExactStatistics.of(delta) for leaf, delta in own.items()} for name, own in deltas.items()}
    return {name: {leaf: one for leaf, one in own.items() if one is not None} for name, own in found.items()}


def added(before: Statistics, after: Statistics) -> Statistics:
    """What has come to the statistics of filters, up to the rounding of those."""
    return {
        name: {leaf: one.since(before.get(name, {}).get(leaf)) for leaf, one in own.items()}
        for name, own in after.items()
    }


def merged(parts: Sequence[Statistics]) -> Statistics:
    """Of all parts together."""
    total: Statistics = {}
    for part in parts:
        for name, own in part.items():
            known = total.setdefault(name, {})
            for leaf, one in own.items():
                known[leaf] = known[leaf].merged(one) if leaf in known else one
    return total


def deltas(statistics: Statistics) -> dict[str, dict[str, FilterDelta]]:
    """As filters take them in."""
    return {name: {leaf: one.delta() for leaf, one in own.items()} for name, own in statistics.items()}


def _integers(values: Any) -> list[int]:
    """Each value in units of ``2**-_BITS``."""
    pairs = (value.as_integer_ratio() for value in np.asarray(values, np.float64).reshape(-1).tolist())
    return [numerator * ((1 << _BITS) // denominator) for numerator, denominator in pairs]


def _array(values: list[float], shape: tuple[int, ...]) -> NDArray[np.float64]:
    return np.array(values, np.float64).reshape(shape)
