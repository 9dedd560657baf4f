"""Tree: branches between the driver and its evaluators, so that the driver talks to few, however many there are.

Liang et al. 2018 (RLlib), section 5: an aggregation tree of actors lets ES scale to 8192 workers.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rlcore.crew import LOST, Call
from rlcore.evaluator_set import EvaluatorSet
from rlcore.runtime.base import Handle, Ref, Resources, Runtime
from rlcore_es.branch import Branch, Report, parts_of, shared_out, summed
from rlcore_es.exploring import Exploration, add_up_pairs, give_table
from rlcore_es.newcomers import Newcomers
from rlcore_es.population import KeepTable, Outcome, Population

#: By how much longer who is a level higher waits: below it, someone may have been waited for in vain.
_PATIENCE = 4.0


class Shape:
    """Who stands below whom: branches are numbered level by level, the lowest first."""

    def __init__(self, evaluators: int, fan_out: int) -> None:
        #: By branch, the places of the evaluators or branches below it.
        self.below: list[range] = []
        #: How many evaluators are below it in all, when nobody is missing.
        self.sizes: list[int] = []
        #: On which level it is, 0 for the lowest.
        self.levels: list[int] = []
        #: How many branches are on the lowest level, and the numbers of those that the driver talks to.
        self.lowest = 0
        self.top = range(0)
        level = range(evaluators)
        while len(level) > fan_out:
            count = -(-len(level) // fan_out)
            first = len(self.below)
            ends = [level.start + len(level) * i // count for i in range(count + 1)]
            groups = [range(start, end) for start, end in itertools.pairwise(ends)]
            # On the lowest level those below are evaluators, which count for one each.
            self.sizes += [sum(self.sizes[i] for i in own) if self.lowest else len(own) for own in groups]
            self.levels += [self.levels[-1] + 1 if self.levels else 0] * count
            self.below += groups
            self.lowest = self.lowest or count
            level = self.top = range(first, first + count)

    def above(self, place: int, is_evaluator: bool) -> int | None:
        """The branch above an evaluator or a branch; None for those that the driver talks to itself."""
        level = range(self.lowest) if is_evaluator else range(self.lowest, len(self.below))
        return next((branch for branch in level if place in self.below[branch]), None)


class Tree(Exploration):
    """The driver talks to the topmost branches alone; each has its part done and hands up what came of it as one.

    Who comes in the place of somebody lost takes part once it has what the others have, and those above know of it
    then: what they send could overtake what the driver sends.
    """

    def __init__(
        self, runtime: Runtime, evaluators: EvaluatorSet, keep: KeepTable, table: Ref, fan_out: int
    ) -> None:
        self._runtime = runtime
        self._evaluators = evaluators
        self._sent_table = table
        self._table: NDArray[np.float32] = runtime.get(table)
        self._shape = Shape(evaluators.size, fan_out)
        patience = [evaluators.timeout_s * _PATIENCE**level for level in self._shape.levels]
        builders = [functools.partial(Branch, runtime.child(), seconds) for seconds in patience]
        self._branches = evaluators.others(
            "branch", builders, Resources(), self._bring_up, timeout_s=_PATIENCE * patience[-1]
        )
        self._evaluators_below = Newcomers(runtime, evaluators.crew)
        self._branches_below = Newcomers(runtime, self._branches)
        #: Branches that are to be told anew who is below them, and how many evaluators are, as they know it.
        self._stale: set[int] = set()
        self._sizes = [0] * len(self._shape.below)
        give_table(evaluators, keep, table)
        evaluators.bring_up_with(self._note_newcomer)
        self._branches.tell("keep_table", table)
        # Whoever answers has the table.
        evaluators.slots()
        self._branches.ask("ready")
        self._stale |= set(range(len(self._shape.below)))
        self._refresh()

    # -- who is below whom

    def _holding(self, place: int) -> tuple[str, tuple[Mapping[int, object], ...]]:
        """The call that tells a branch who is below it; those below know it already."""
        below = self._shape.below[place]
        if place < self._shape.lowest:
            evaluators = self._evaluators_below.others(below)
            self._sizes[place] = len(evaluators)
            return "hold", (evaluators,)
        handles = self._branches_below.others(below)
        sizes = {i: self._sizes[i] for i in handles}
        self._sizes[place] = sum(sizes.values())
        return "hold_branches", (handles, sizes)

    def _bring_up(self, handle: Handle, place: int, life: int) -> list[Ref]:
        self._branches_below.note(place)
        self._note_stale(place, is_evaluator=False)
        method, args = self._holding(place)
        return [handle.submit("keep_table", self._sent_table), handle.submit(method, *args)]

    def _note_newcomer(self, handle: Handle, index: int) -> list[Ref]:
        self._evaluators_below.note(index)
        self._note_stale(index, is_evaluator=True)
        return []

    def _note_stale(self, place: int, is_evaluator: bool) -> None:
        """All branches above it are to be told."""
        branch = self._shape.above(place, is_evaluator)
        while branch is not None:
            self._stale.add(branch)
            branch = self._shape.above(branch, is_evaluator=False)

    def _refresh(self) -> None:
        """Branches know who is there, where that has changed."""
        for place in self._evaluators_below.look():
            self._note_stale(place, is_evaluator=True)
        for place in self._branches_below.look():
            self._note_stale(place, is_evaluator=False)
        while self._stale:
            stale, self._stale = sorted(self._stale), set()
            calls = []
            for place in stale:
                method, args = self._holding(place)
                if self._branches_below.is_new(place):
                    self._branches.tell_one(place, method, *args)
                else:
                    handle = self._branches.members[place].handle
                    calls.append((handle, handle.submit(method, *args)))
            # They are to know it before anyone calls them.
            self._branches.settle(calls)

    def _replace(self, report: Report) -> None:
        """Those that a branch has lost."""
        for crew, lost, is_evaluator in (
            (self._evaluators.crew, report.lost_evaluators, True),
            (self._branches, report.lost_branches, False),
        ):
            for place, error in lost.items():
                if not self._runtime.isolates:
                    raise error
                crew.replace(crew.members[place], error)
                # Also where nobody has come yet, for want of room.
                self._note_stale(place, is_evaluator)

    # -- tasks and noise

    def explore(self, population: Population, generation: int, sent: tuple[Ref, ...]) -> Outcome:
        undone, parts = list(range(population.tasks)), list[Outcome]()
        while undone:
            self._refresh()
            shares = shared_out(undone, self._able())
            args = {place: (population, generation, own, *sent) for place, own in shares.items()}
            calls = self._calls("explore", args)
            before, undone = len(undone), [] if shares else undone
            for share, report in zip(shares.values(), self._branches.settle(calls), strict=True):
                if report is LOST:
                    undone += share
                    continue
                parts.append(report.outcome)
                undone += report.undone
                self._replace(report)
            if len(undone) == before:
                # Nobody was there: waits for anyone.
                self._evaluators.slots()
                self._branches.ask("ready")
        self._evaluators_below.note_work()
        self._branches_below.note_work()
        return Outcome.merged([part for part in parts if part.tasks])

    def _able(self) -> dict[int, int]:
        """How many evaluators are below those that the driver talks to, where there are any: they can do tasks."""
        members = self._branches.members
        return {i: self._sizes[i] for i in self._shape.top if self._sizes[i] and not members[i].vacant}

    def add_up(
        self, population: Population, generation: int, weights: Mapping[str, NDArray[np.int64]]
    ) -> dict[str, NDArray[np.float64]]:
        shares = parts_of(population.pairs, {place: self._shape.sizes[place] for place in self._shape.top})
        own = {place: {name: one[part] for name, one in weights.items()} for place, part in shares.items()}
        calls = self._calls(
            "add_up", {place: (population, generation, part.start, own[place]) for place, part in shares.items()}
        )
        sums = self._branches.settle(calls)
        # Of one that is lost the driver adds it up itself: it comes to the same.
        found = [
            add_up_pairs(population, generation, self._table, shares[place], own[place]) if one is LOST else one
            for place, one in zip(shares, sums, strict=True)
        ]
        return summed(found)

    def _calls(self, method: str, args: Mapping[int, tuple[object, ...]]) -> list[Call]:
        handles = {place: self._branches.members[place].handle for place in args}
        return [(handles[place], handles[place].submit(method, *own)) for place, own in args.items()]
