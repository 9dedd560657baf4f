"""Who has the tasks of a generation done: the driver itself, evaluator by evaluator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rlcore.crew import LOST
from rlcore.evaluator_set import EvaluatorSet
from rlcore.in_flight import InFlight
from rlcore.runtime.base import Handle, Ref, Runtime
from rlcore_es.noise import weighted_sum
from rlcore_es.population import KeepTable, Outcome, Population

#: Tasks that each evaluator has ahead of it, so that it need not wait for the next one.
AHEAD = 2


class Exploration(ABC):
    """Gets the tasks of generations done, and adds up noise."""

    @abstractmethod
    def explore(self, population: Population, generation: int, sent: tuple[Ref, ...]) -> Outcome:
        """What came of all tasks. ``sent`` are references to what evaluators take in before: an update and weights."""

    @abstractmethod
    def add_up(
        self, population: Population, generation: int, weights: Mapping[str, NDArray[np.int64]]
    ) -> dict[str, NDArray[np.float64]]:
        """By policy, the sum of the noise of all pairs, each times its weight: exact."""


def add_up_pairs(
    population: Population,
    generation: int,
    table: NDArray[np.float32],
    pairs: slice,
    weights: Mapping[str, NDArray[np.int64]],
) -> dict[str, NDArray[np.float64]]:
    """The same of some pairs, with their weights."""
    indexes, offsets = population.indexes(generation)[pairs], population.offsets
    return {
        policy_id: weighted_sum(table, indexes + offsets[policy_id], own, population.layouts[policy_id].size)
        for policy_id, own in weights.items()
    }


class Flat(Exploration):
    """Nobody stands between the driver and the evaluators."""

    def __init__(self, runtime: Runtime, evaluators: EvaluatorSet, keep: KeepTable, table: Ref) -> None:
        self._runtime = runtime
        self._table: NDArray[np.float32] = runtime.get(table)
        self._calls: InFlight[int] = InFlight(runtime, evaluators.crew, AHEAD)
        give_table(evaluators, keep, table)

    def explore(self, population: Population, generation: int, sent: tuple[Ref, ...]) -> Outcome:
        calls, todo, parts = self._calls, deque(range(population.tasks)), list[Outcome]()
        # Of a generation that was interrupted calls may be under way.
        calls.forget()
        while todo or calls.count():
            self._give(todo, population, generation, sent)
            # With nothing to give out there is no hurry before all are back; those without room may not come at all.
            self._runtime.wait(calls.next, 1 if todo else calls.busy(), _or_none(calls.patience()))
            for arrival in calls.arrived():
                if arrival.value is LOST:
                    todo.append(arrival.note)
                else:
                    parts.append(arrival.value)
        return Outcome.merged(parts)

    def _give(self, todo: deque[int], population: Population, generation: int, sent: tuple[Ref, ...]) -> None:
        """To everyone as much as there is and they can take."""
        while todo and (idle := self._calls.idle()):
            for index in idle[: len(todo)]:
                task = todo.popleft()
                self._calls.submit(index, task, "perform", population.order(generation, task), *sent)

    def add_up(
        self, population: Population, generation: int, weights: Mapping[str, NDArray[np.int64]]
    ) -> dict[str, NDArray[np.float64]]:
        return add_up_pairs(population, generation, self._table, slice(None), weights)


def give_table(evaluators: EvaluatorSet, keep: KeepTable, table: Ref) -> None:
    """Every evaluator, and whoever comes in the place of one, gets the table of noise."""

    def bring(handle: Handle, index: int) -> list[Ref]:
        return [handle.submit("perform", keep, table)]

    evaluators.bring_up_with(bring)
    evaluators.tell("perform", keep, table)


def _or_none(seconds: float) -> float | None:
    return None if seconds == float("inf") else seconds
