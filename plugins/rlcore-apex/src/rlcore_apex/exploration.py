"""The ladder of exploration: some environments explore a lot and others hardly (Horgan et al. 2018, section 4.1)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from rlcore.evaluator_set import EvaluatorSet
from rlcore.runtime.base import Handle, Ref
from rlcore_apex.config import LadderConfig


def ladder(count: int, base: float, exponent: float) -> NDArray[np.float64]:
    """``base ** (1 + exponent * i / (count - 1))`` for ``i`` of ``count``, float64 ``[count]``, the highest first.

    Of one alone it is ``base``.
    """
    return np.power(base, 1.0 + exponent * np.arange(count) / max(1, count - 1))


def least_exploring(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of the ``values [n]`` are in the lowest third, at least one, ``[n]``."""
    third = -(-len(values) // 3)
    return np.asarray(values <= np.sort(values)[third - 1])


class ExplorationLadder:
    """A rung for every environment of all evaluators; the returns of the least exploring third stand for the run."""

    def __init__(self, evaluators: EvaluatorSet, utilities: Mapping[str, str], config: LadderConfig) -> None:
        """``utilities``: of each policy that explores by a number, the utility that sets it."""
        self._evaluators = evaluators
        self._utilities = utilities
        self._config = config
        self._rungs: NDArray[np.float64] | None = None
        #: The slots of that third by evaluator; None where nobody explores by a number.
        self.representative: Mapping[int, Collection[int]] | None = None
        evaluators.bring_up_with(self._calls)

    def put_up(self) -> None:
        """Once, before anything is sampled: everyone is told how much to explore."""
        if self._rungs is not None or not self._utilities:
            return
        size, slots = self._evaluators.size, self._evaluators.slots()
        self._rungs = ladder(size * slots, self._config.base, self._config.exponent).reshape(size, slots)
        count = least_exploring(self._rungs.ravel()).reshape(size, slots)
        self.representative = {i: frozenset(np.flatnonzero(own).tolist()) for i, own in enumerate(count)}
        for index, handle in self._evaluators.by_place.items():
            self._evaluators.expect([(handle, ref) for ref in self._calls(handle, index)])

    def _calls(self, handle: Handle, index: int) -> list[Ref]:
        if self._rungs is None:
            return []
        return [handle.submit("call", name, own, self._rungs[index]) for name, own in self._utilities.items()]
