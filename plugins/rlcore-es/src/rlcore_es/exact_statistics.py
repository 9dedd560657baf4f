"""Statistics of observations that merge to the same numbers, bit for bit, in whatever order and groups they are merged.

Sums of floats depend on the order, sums of integers do not: a float is an integer times a power of two.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.sampling.filters import FilterDelta

#: ``(integer, exponent)``: the integer times two to the exponent.
Dyadic = tuple[int, int]


@dataclass(frozen=True)
class ExactStatistics:
    """Of ``count`` observations of ``shape``, number by number, the sums and the sums of squares, exactly."""

    shape: tuple[int, ...]
    count: int
    sums: tuple[Dyadic, ...]
    squares: tuple[Dyadic, ...]

    @classmethod
    def of(cls, delta: FilterDelta) -> ExactStatistics | None:
        """What a filter has seen; None where that is nothing."""
        if not delta or not delta["count"]:
            return None
        count, means, deviations = int(delta["count"]), _dyadics(delta["mean"]), _dyadics(delta["m2"])
        sums = tuple((count * mean, exponent) for mean, exponent in means)
        squares = tuple(
            _combined(operator.add, m2, (count * mean * mean, 2 * exponent))
            for (mean, exponent), m2 in zip(means, deviations, strict=True)
        )
        return cls(np.shape(delta["mean"]), count, sums, squares)

    def merged(self, other: ExactStatistics) -> ExactStatistics:
        """Of both together."""
        return self._with(operator.add, other)

    def since(self, before: ExactStatistics | None) -> ExactStatistics:
        """Of what has been added to ``before``."""
        return self if before is None else self._with(operator.sub, before)

    def _with(self, combine: Callable[[int, int], int], other: ExactStatistics) -> ExactStatistics:
        return ExactStatistics(
            self.shape,
            combine(self.count, other.count),
            tuple(_combined(combine, one, two) for one, two in zip(self.sums, other.sums, strict=True)),
            tuple(_combined(combine, one, two) for one, two in zip(self.squares, other.squares, strict=True)),
        )

    def delta(self) -> FilterDelta:
        """As a filter takes it in: each number correctly rounded from the exact one."""
        if not self.count:
            return {}
        means = [_quotient(total, self.count) for total in self.sums]
        m2 = []
        for (total, exponent), (square, of_square) in zip(self.sums, self.squares, strict=True):
            # count * squares - sums**2 is count times the sum of squared deviations.
            spread = _combined(operator.sub, (self.count * square, of_square), (total * total, 2 * exponent))
            m2.append(max(_quotient(spread, self.count), 0.0))
        return {"count": self.count, "mean": _array(means, self.shape), "m2": _array(m2, self.shape)}


def _combined(combine: Callable[[int, int], int], one: Dyadic, two: Dyadic) -> Dyadic:
    (first, exponent), (second, other) = one, two
    if exponent == other:
        return combine(first, second), exponent
    if exponent > other:
        return combine(first << (exponent - other), second), other
    return combine(first, second << (other - exponent)), exponent


def _quotient(number: Dyadic, by: int) -> float:
    """Correctly rounded, as quotients of Python's integers are."""
    integer, exponent = number
    return (integer << exponent) / by if exponent >= 0 else integer / (by << -exponent)


def _dyadics(values: Any) -> list[Dyadic]:
    pairs = (value.as_integer_ratio() for value in np.asarray(values, np.float64).reshape(-1).tolist())
    # The denominator of a float is a power of two.
    return [(numerator, 1 - denominator.bit_length()) for numerator, denominator in pairs]


def _array(values: list[float], shape: tuple[int, ...]) -> NDArray[np.float64]:
    return np.array(values, np.float64).reshape(shape)


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
