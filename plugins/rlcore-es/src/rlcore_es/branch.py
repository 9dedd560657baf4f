"""Branch: an actor between the driver and its evaluators, which drives some of them, or other branches, by itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.errors import WorkerLost
from rlcore.evaluator_messages import Update
from rlcore.places import no_answer
from rlcore.policy_graph import Weights
from rlcore.runtime.base import Handle, Ref, Runtime
from rlcore_es.exploring import AHEAD, add_up_pairs
from rlcore_es.population import Outcome, Population


@dataclass
class Report:
    """What came of the tasks that a branch was given, those that are still to be done, and whom it has lost.

    ``lost_evaluators`` and ``lost_branches`` are ``{place: why}``; nothing of theirs is in the outcome.
    """

    outcome: Outcome
    undone: list[int] = field(default_factory=list)
    lost_evaluators: dict[int, Exception] = field(default_factory=dict)
    lost_branches: dict[int, Exception] = field(default_factory=dict)

    @classmethod
    def merged(cls, parts: list[Report]) -> Report:
        """All of them as one."""
        total = cls(Outcome.merged([part.outcome for part in parts if part.outcome.tasks]))
        for part in parts:
            total.undone += part.undone
            total.lost_evaluators |= part.lost_evaluators
            total.lost_branches |= part.lost_branches
        return total


class Branch:
    """Has tasks done by those below it, merges what came of them, and adds up the noise of some pairs.

    Who is lost below it is for the driver to replace: it says so, and ``hold`` tells it who is there then.
    """

    def __init__(self, runtime: Runtime, timeout_s: float) -> None:
        """Those below have so many seconds to answer."""
        self._runtime = runtime
        self._timeout_s = timeout_s
        self._below: dict[int, Handle] = {}
        self._are_branches = False
        self._sizes: dict[int, int] = {}
        self._table: NDArray[np.float32] = np.zeros(0, np.float32)

    def ready(self) -> None:
        """It is there."""

    def keep_table(self, table: NDArray[np.float32]) -> None:
        """Reads noise from it from now on."""
        self._table = table

    def hold(self, evaluators: Mapping[int, Handle]) -> None:
        """Drives these evaluators from now on, by place."""
        self._below, self._are_branches, self._sizes = dict(evaluators), False, dict.fromkeys(evaluators, 1)

    def hold_branches(self, branches: Mapping[int, Handle], sizes: Mapping[int, int]) -> None:
        """Drives these branches from now on, by place, with so many evaluators below each; none, where nobody is."""
        self._below, self._are_branches, self._sizes = dict(branches), True, dict(sizes)

    # -- tasks

    def explore(
        self, population: Population, generation: int, tasks: list[int], update: Update, weights: dict[str, Weights]
    ) -> Report:
        """Has ``tasks`` done with these weights; all are still to be done where there is no evaluator below it."""
        if not any(self._sizes.values()):
            return Report(Outcome(), list(tasks))
        sent = self._runtime.put(update), self._runtime.put(weights)
        if self._are_branches:
            return self._explore_below(population, generation, tasks, sent)
        return self._explore_evaluators(population, generation, tasks, sent)

    def _explore_evaluators(
        self, population: Population, generation: int, tasks: list[int], sent: tuple[Ref, ...]
    ) -> Report:
        todo, parts, lost = deque(tasks), list[Outcome](), dict[int, Exception]()
        calls: dict[int, deque[tuple[int, Ref]]] = {place: deque() for place in self._below}
        while calls and (todo or any(calls.values())):
            self._give(todo, calls, population, generation, sent)
            ready, late = self._answered(calls, in_a_hurry=bool(todo))
            for place in ready:
                try:
                    parts.append(self._runtime.get(calls[place][0][1]))
                    calls[place].popleft()
                except Exception as error:  # whose fault it is, and what follows, is for the driver to decide
                    lost[place] = error
            lost |= {place: WorkerLost(self._below[place], no_answer(self._timeout_s)) for place in late}
            for place in lost.keys() & calls.keys():
                todo.extend(task for task, _ in calls.pop(place))
        return Report(Outcome.merged(parts), list(todo), lost)

    def _give(
        self,
        todo: deque[int],
        calls: Mapping[int, deque[tuple[int, Ref]]],
        population: Population,
        generation: int,
        sent: tuple[Ref, ...],
    ) -> None:
        """To everyone as much as there is and they can take, in turns."""
        for _ in range(AHEAD):
            for place, own in calls.items():
                if todo and len(own) < AHEAD:
                    task = todo.popleft()
                    ref = self._below[place].submit("perform", population.order(generation, task), *sent)
                    own.append((task, ref))

    def _answered(
        self, calls: Mapping[int, deque[tuple[int, Ref]]], in_a_hurry: bool
    ) -> tuple[list[int], list[int]]:
        """Whose first call is over, and, where none came in time, who is late."""
        first = {id(own[0][1]): (place, own[0][1]) for place, own in calls.items() if own}
        refs = [ref for _, ref in first.values()]
        ready, pending = self._runtime.wait(refs, 1 if in_a_hurry else len(refs), self._timeout_s)
        late = [] if ready else [first[id(ref)][0] for ref in pending]
        return [first[id(ref)][0] for ref in ready], late

    def _explore_below(
        self, population: Population, generation: int, tasks: list[int], sent: tuple[Ref, ...]
    ) -> Report:
        shares = shared_out(tasks, self._sizes)
        calls = {
            place: self._below[place].submit("explore", population, generation, share, *sent)
            for place, share in shares.items()
            if share
        }
        found, lost = self._settled(calls)
        parts: list[Report] = list(found.values())
        parts += [Report(Outcome(), shares[place], lost_branches={place: error}) for place, error in lost.items()]
        return Report.merged(parts)

    def _settled(self, calls: Mapping[int, Ref]) -> tuple[dict[int, Any], dict[int, Exception]]:
        """The values of calls of those below, and why there are none, by place."""
        refs = list(calls.values())
        late = {id(ref) for ref in self._runtime.wait(refs, len(refs), self._timeout_s)[1]}
        found, lost = dict[int, Any](), dict[int, Exception]()
        for place, ref in calls.items():
            try:
                if id(ref) in late:
                    raise WorkerLost(self._below[place], no_answer(self._timeout_s))
                found[place] = self._runtime.get(ref)
            except WorkerLost as error:
                lost[place] = error
        return found, lost

    # -- noise

    def add_up(
        self, population: Population, generation: int, first: int, weights: Mapping[str, NDArray[np.int64]]
    ) -> dict[str, NDArray[np.float64]]:
        """By policy, the sum of the noise of the pairs from ``first`` on, each times its weight: exact.

        Of those of a branch that is lost it adds it up itself, which comes to the same.
        """
        pairs = len(next(iter(weights.values())))
        if not self._are_branches or not self._below:
            return add_up_pairs(population, generation, self._table, slice(first, first + pairs), weights)
        # Those that have no evaluator can add up, too.
        shares = parts_of(pairs, dict.fromkeys(self._below, 1))
        refs = {
            place: self._below[place].submit("add_up", population, generation, first + part.start, _of(weights, part))
            for place, part in shares.items()
        }
        found, lost = self._settled(refs)
        for place in lost:
            own = slice(first + shares[place].start, first + shares[place].stop)
            found[place] = add_up_pairs(population, generation, self._table, own, _of(weights, shares[place]))
        return summed(list(found.values()))


def _of(weights: Mapping[str, NDArray[np.int64]], part: slice) -> dict[str, NDArray[np.int64]]:
    return {policy_id: own[part] for policy_id, own in weights.items()}


def summed(parts: list[dict[str, NDArray[np.float64]]]) -> dict[str, NDArray[np.float64]]:
    """The sums of arrays by policy."""
    total = {policy_id: own.copy() for policy_id, own in parts[0].items()}
    for part in parts[1:]:
        for policy_id, own in part.items():
            total[policy_id] += own
    return total


def parts_of(number: int, sizes: Mapping[int, int]) -> dict[int, slice]:
    """``range(number)`` cut into parts for those with ``sizes``, in proportion to these; empty ones are left out."""
    total, before, found = sum(sizes.values()), 0, {}
    for place, size in sizes.items():
        start, end = number * before // total, number * (before + size) // total
        before += size
        if end > start:
            found[place] = slice(start, end)
    return found


def shared_out(tasks: list[int], sizes: Mapping[int, int]) -> dict[int, list[int]]:
    """Tasks for those with ``sizes``, in proportion to these."""
    return {place: tasks[part] for place, part in parts_of(len(tasks), sizes).items()}
