"""Rounds that do not wait for the slowest: when one is over, who is left out of it, and what that costs and saves.

The idea is that of backup workers (Chen et al. 2016, Revisiting Distributed Synchronous SGD), but nothing is thrown
away: whoever is left out goes on, and what it gives is used in the round in which it is there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rlcore.crew import Crew
from rlcore.members import Answer, Member, Pending
from rlcore.runtime.base import Ref

if TYPE_CHECKING:
    from rlcore.sampling.filters import SharedStatistics

#: The method that gives what a worker goes on from, and the parts of that which all workers share.
STATE, SHARED_STATE = "get_state", ("policies", "graphs", "versions")


@dataclass(frozen=True)
class RoundRule:
    """When a round of samples is over, though some of those asked have not given theirs.

    As soon as the share ``fraction`` of all has given one, or after ``timeout_s`` seconds with what there is by then,
    at least one. It is waited for whoever has been left out ``max_late_rounds`` times in a row.
    """

    fraction: float = 1.0
    timeout_s: float | None = None
    max_late_rounds: int = 8

    @property
    def leaves_out(self) -> bool:
        """Whether anyone is ever left out."""
        return self.fraction < 1.0 or self.timeout_s is not None

    def enough(self, count: int) -> int:
        """How many samples of ``count`` workers are enough."""
        # The margin is for fractions such as 0.1 * 30.
        return max(1, math.ceil(self.fraction * count - 1e-9))


#: Nobody is left out.
EVERYONE = RoundRule()


@dataclass
class _Asked:
    """A sample that a worker was asked for and that has not been taken."""

    since: float
    #: What it gives, calls that are to have gone well before, and the state in which it was.
    results: tuple[Ref, ...]
    told: list[Ref]
    began_from: Ref
    #: Of how many rounds it has been left out.
    late: int = 0


class StragglerCrew(Crew):
    """A crew whose rounds are over by a rule. Each worker has one sample in flight at the most."""

    def __init__(self, *args: Any, rule: RoundRule) -> None:
        super().__init__(*args)
        self._rule = rule
        self._asked: dict[int, _Asked] = {}
        self._looked = self._runtime.now()
        #: How often somebody was left out of a round, and seconds that passed while something was missing that a round
        #: had gone on without: those that waiting for the slowest would have taken, as far as they were seen.
        self.left_out = 0
        self.saved_s = 0.0

    @property
    def late(self) -> list[int]:
        """The places from which a sample is missing."""
        return sorted(self._asked)

    def forget(self) -> None:
        """Drops whatever is in flight."""
        self._asked.clear()

    # -- rounds

    def sample(self, method: str, returns: int) -> list[Answer]:
        """Samples of those that have given one when the round is over, in the order of the places.

        Of all, where a call runs when it is submitted.
        """
        if not (self._rule.leaves_out and self._runtime.isolates):
            return super().sample(method, returns)
        started, answers = self._look(), dict[int, Answer]()
        self.fill()
        while True:
            if not answers and not self._present():
                self._wait_for_anyone()
            for member in self._unasked(answers):
                self._ask_for(member, method, returns)
            self._take(self._ready(), answers)
            self._replace_hanging()
            if self._unasked(answers) or not (answers or self._asked):
                continue
            if not self._lacking(answers, started):
                break
            self._wait(answers, started)
        for asked in self._asked.values():
            asked.late += 1
        self.left_out += len(self._asked)
        self._note_missing()
        self._looked = self._runtime.now()
        return [answers[index] for index in sorted(answers)]

    def _unasked(self, answers: Mapping[int, Answer]) -> list[Member]:
        """Those who are there and have neither given a sample nor been asked for one."""
        return [one for one in self._present() if one.index not in answers and one.index not in self._asked]

    def _ask_for(self, member: Member, method: str, returns: int) -> None:
        (began_from,) = self.send(member, STATE, (), 1)
        results = self.send(member, method, (), returns)
        self._asked[member.index] = _Asked(self._runtime.now(), results, member.told, began_from)
        member.told = []

    def _take(self, ready: Sequence[Member], answers: dict[int, Answer]) -> None:
        due = {member: self._asked[member.index] for member in ready}
        pending = {
            member: Pending(asked.since, [*asked.told, asked.results[0]], asked.results[1:])
            for member, asked in due.items()
        }
        for member, one, outcome in self.outcomes(pending):
            if isinstance(outcome, Exception):
                self.replace(member, outcome)
                continue
            asked = self._asked.pop(member.index)
            self.heard(member, asked.results[0])
            self.note_sample(member)
            answers[member.index] = Answer(member.handle, outcome[-1], one.others, member.index, asked.late)

    def _lacking(self, answers: Mapping[int, Answer], started: float) -> int:
        """How many samples more the round waits for."""
        if any(self._must_come()):
            return len(self._must_come())
        over = self._runtime.now() >= self._deadline(started)
        # Those who have answered may be among the vacant by now.
        able = len(self._asked) + len(answers)
        return max(0, (1 if over else self._rule.enough(able)) - len(answers))

    def _must_come(self) -> list[Ref]:
        return [asked.results[0] for asked in self._asked.values() if asked.late >= self._rule.max_late_rounds]

    def _wait(self, answers: Mapping[int, Answer], started: float) -> None:
        """Until there are as many as lack, the deadline passes or somebody's time is over."""
        now = self._runtime.now()
        ends, deadline = [self._time_out(index) for index in self._asked], self._deadline(started)
        awaited = self._must_come()
        if not awaited:
            awaited = [asked.results[0] for asked in self._asked.values()]
            ends += [deadline] if deadline > now else []
        self._runtime.wait(awaited, self._lacking(answers, started), max(0.0, min(ends) - now))
        self._look()

    # Whoever waits until then and whoever asks whether it is past compare the same number: differences are rounded.

    def _deadline(self, started: float) -> float:
        return started + (math.inf if self._rule.timeout_s is None else self._rule.timeout_s)

    def _time_out(self, index: int) -> float:
        return self.due_by(self._members[index], self._asked[index].since)

    def _ready(self) -> list[Member]:
        refs = [asked.results[0] for asked in self._asked.values()]
        _, pending = self._runtime.wait(refs, len(refs), 0.0) if refs else ([], [])
        return [self._members[i] for i, asked in self._asked.items() if not _among(asked.results[0], pending)]

    def _replace_hanging(self) -> None:
        self.listen({self._members[index]: asked.results[0] for index, asked in self._asked.items()})
        for index, asked in list(self._asked.items()):
            if self.is_late(self._members[index], asked.since):
                self.replace_late(self._members[index])
        self.tell_of_vacancies()

    def _vacate(self, member: Member) -> None:
        self._asked.pop(member.index, None)
        super()._vacate(member)

    def replace(self, member: Member, error: Exception) -> None:
        self._asked.pop(member.index, None)
        super().replace(member, error)

    def _look(self) -> float:
        """Counts the time since the last look, where something is still missing that a round went on without."""
        now = self._runtime.now()
        late = [asked.results[0] for asked in self._asked.values() if asked.late]
        if late and self._runtime.wait(late, len(late), 0.0)[1]:
            self.saved_s += now - self._looked
        self._looked = now
        return now

    # -- calls on those that have nothing in flight

    def look(self) -> None:
        """To be called now and then while a round is learnt from: ``saved_s`` is as exact as it is looked often."""
        if self._asked:
            self._look()

    def ask_idle(self, method: str, *args: Any) -> dict[int, Any]:
        """By place, the answers of those; whoever has a sample in flight is not waited for."""
        idle = [member for member in self._present() if member.index not in self._asked]
        return {answer.place: answer.value for answer in self._ask(method, args, 1, idle)}

    def begun_from(self) -> dict[int, Any]:
        """The states in which those were that have a sample in flight, when they were asked for it."""
        now, states = self._runtime.now(), {}
        asked = {self._members[i]: Pending(now, [asked.began_from]) for i, asked in self._asked.items()}
        for member, _, outcome in self.outcomes(asked):
            if isinstance(outcome, Exception):
                self.replace(member, outcome)
            else:
                states[member.index] = outcome[0]
        return states


def _among(ref: Ref, refs: Sequence[Ref]) -> bool:
    return any(ref is other for other in refs)


def brought_up(
    state: Mapping[str, Any], other: Mapping[str, Any], statistics: Mapping[str, Mapping[str, SharedStatistics]]
) -> dict[str, Any]:
    """The state of a worker before the sample that it has in flight, with what all workers have by now.

    ``other`` is the state of one that has nothing in flight. Whoever goes on from it takes that sample again.
    """
    result = {**state, **{name: other[name] for name in SHARED_STATE}}
    result["filters"] = {
        policy_id: {
            leaf: {**own, "statistics": statistics[policy_id][leaf].get_statistics()} if own else own
            for leaf, own in leaves.items()
        }
        for policy_id, leaves in state["filters"].items()
    }
    return result


@dataclass
class StragglerReport:
    """What leaving out does: the bias by evaluator and by age, and the gain, since the last ``row``."""

    #: Rows that each evaluator has given since the run began.
    rows: list[int]
    _late_rows: int = field(default=0, init=False)
    _late_versions: int = field(default=0, init=False)
    _before: tuple[int, float] = field(default=(0, 0.0), init=False)

    def note(self, index: int, rows: int, late: bool, staleness: int) -> None:
        """A sample that was taken; ``staleness`` is how many versions there are newer than what acted."""
        self.rows[index] += rows
        if late:
            self._late_rows += rows
            self._late_versions += rows * staleness

    def go_on(self, rows: Sequence[int]) -> None:
        """Goes on from the ``rows`` that a run had, of as many evaluators as there are in both."""
        self.rows = [*rows[: len(self.rows)], *self.rows[len(rows) :]]

    def row(self, crew: StragglerCrew) -> dict[str, Any]:
        """What stands in the row of an iteration."""
        total, (left_out, saved_s) = max(1, sum(self.rows)), self._before
        row = {
            "stragglers_left_out": crew.left_out - left_out,
            "stragglers_in_flight": len(crew.late),
            "late_rows": self._late_rows,
            "late_staleness_mean": self._late_versions / self._late_rows if self._late_rows else None,
            "evaluator_share_min": min(self.rows) / total,
            "evaluator_share_max": max(self.rows) / total,
            "stragglers_saved_s": crew.saved_s - saved_s,
        }
        self._late_rows = self._late_versions = 0
        self._before = crew.left_out, crew.saved_s
        return row
