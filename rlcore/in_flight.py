"""Calls in flight on the workers of a crew: a bounded number each, whose answers are taken as they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rlcore.crew import LOST, Crew, Lost
from rlcore.errors import ValueLost
from rlcore.members import Member, Pending
from rlcore.runtime.base import Handle, Ref, Runtime

Note = TypeVar("Note")


@dataclass(frozen=True)
class Arrival(Generic[Note]):
    """What has become of one call.

    ``value`` is the first of its results, ``LOST`` where the worker was lost before it answered; ``others`` are
    references to the further ones. ``note`` is what the caller gave along.
    """

    index: int
    handle: Handle
    value: Any | Lost
    others: tuple[Ref, ...]
    note: Note


@dataclass
class _Call(Generic[Note]):
    handle: Handle
    results: tuple[Ref, ...]
    #: Calls on the same worker that nobody waits for and that are to have gone well before.
    told: list[Ref]
    #: When it was sent.
    since: float
    note: Note


class InFlight(Generic[Note]):
    """Calls on the workers of ``crew``, at most ``limit`` each, so that nothing piles up anywhere.

    ::

        for index in in_flight.idle():
            in_flight.submit(index, note, "sample")
        runtime.wait(in_flight.next, 1, timeout)
        for arrival in in_flight.arrived(): ...

    A worker answers in the order in which it was called. One that is lost, raises or does not answer in time is
    replaced, as the crew does; all its calls arrive as ``LOST``. So does a call for which a value was lost, and its
    worker goes on.
    """

    def __init__(self, runtime: Runtime, crew: Crew, limit: int) -> None:
        self._runtime = runtime
        self._crew = crew
        self._limit = limit
        self._calls: dict[int, deque[_Call[Note]]] = {member.index: deque() for member in crew.members}

    def room(self, index: int) -> int:
        """How many more calls the worker in that place may be sent; none, where there is nobody."""
        return 0 if self._crew.members[index].vacant else self._limit - len(self._calls[index])

    def idle(self) -> list[int]:
        """The places that can take a call more, those with the fewest in flight first; not those that are vacant."""
        able = [member.index for member in self._crew.members if self.room(member.index) > 0]
        return sorted(able, key=lambda index: len(self._calls[index]))

    def forget(self) -> None:
        """What is in flight is of no use any more."""
        for calls in self._calls.values():
            calls.clear()

    def notes(self) -> list[Note]:
        """What was given along with the calls in flight."""
        return [call.note for calls in self._calls.values() for call in calls]

    def count(self) -> int:
        """How many calls are in flight."""
        return sum(len(calls) for calls in self._calls.values())

    def busy(self) -> int:
        """How many workers have calls in flight."""
        return len(self._oldest())

    def submit(self, index: int, note: Note, method: str, *args: Any, returns: int = 1) -> tuple[Ref, ...]:
        """Calls the worker in that place; gives references to what will come of it."""
        assert self.room(index) > 0, f"{self._limit} calls are in flight on worker {index}"
        member = self._crew.members[index]
        results = self._crew.send(member, method, args, returns)
        self._calls[index].append(_Call(member.handle, results, member.told, self._runtime.now(), note))
        member.told = []
        return results

    @property
    def next(self) -> list[Ref]:
        """What to wait for: the oldest call of each worker, and that those find room whose places are vacant."""
        starting = [self._runtime.started(member.handle) for member in self._crew.members if member.vacant]
        return [call.results[0] for call in self._oldest().values()] + starting

    def _oldest(self) -> dict[Member, _Call[Note]]:
        calls = {member: self._calls[member.index] for member in self._crew.members}
        return {member: own[0] for member, own in calls.items() if own}

    def arrived(self) -> list[Arrival[Note]]:
        """Every call that has come to an end and was not given before; it waits for none.

        ``UserError`` where the crew has been stuck for too long.
        """
        self._crew.fill()
        arrivals = self._of_replaced()
        while due := self._due():
            pending = {
                member: Pending(call.since, [*call.told, call.results[0]], call.results[1:])
                for member, call in due.items()
            }
            for member, _, outcome in self._crew.outcomes(pending):
                if isinstance(outcome, ValueLost):
                    # Its own loss would show with the next call.
                    arrivals.append(self._take(member, LOST))
                elif isinstance(outcome, Exception):
                    self._crew.replace(member, outcome)
                    arrivals += self._drop(member)
                else:
                    arrivals.append(self._take(member, outcome[-1]))
        oldest = self._oldest()
        self._crew.listen({member: call.results[0] for member, call in oldest.items()})
        for member, call in oldest.items():
            if self._crew.is_late(member, call.since):
                self._crew.replace_late(member)
                arrivals += self._drop(member)
        self._crew.tell_of_vacancies()
        self._crew.check_vacancies()
        return arrivals

    def patience(self) -> float:
        """Seconds until the first of those that have not answered counts as hanging; infinite with nothing in flight.

        Whoever waits for ``next`` should wait no longer.
        """
        now = self._runtime.now()
        due = [
            self._crew.due_by(member, self._calls[member.index][0].since)
            for member in self._crew.members
            if self._calls[member.index]
        ]
        return max(0.0, min([*due, self._crew.end_of_patience()], default=float("inf")) - now)

    def _of_replaced(self) -> list[Arrival[Note]]:
        """Calls on workers that somebody else has found lost."""
        arrivals: list[Arrival[Note]] = []
        for member in self._crew.members:
            calls = self._calls[member.index]
            while calls and calls[0].handle is not member.handle:
                arrivals.append(_lost(member.index, calls.popleft()))
        return arrivals

    def _due(self) -> dict[Member, _Call[Note]]:
        """The oldest call of each worker, where it has ended."""
        oldest = self._oldest()
        if not oldest:
            return {}
        _, pending = self._runtime.wait([call.results[0] for call in oldest.values()], len(oldest), 0.0)
        waiting = {id(ref) for ref in pending}
        return {member: call for member, call in oldest.items() if id(call.results[0]) not in waiting}

    def _take(self, member: Member, value: Any) -> Arrival[Note]:
        call = self._calls[member.index].popleft()
        self._crew.heard(member, call.results[0])
        self._note_answer(member)
        return Arrival(member.index, call.handle, value, call.results[1:], call.note)

    def _note_answer(self, member: Member) -> None:
        """It does its work, and is in order."""
        self._crew.note_sample(member)

    def _drop(self, member: Member) -> Sequence[Arrival[Note]]:
        calls, self._calls[member.index] = self._calls[member.index], deque()
        return [_lost(member.index, call) for call in calls]


class Asides(InFlight[Note]):
    """Calls beside the work of the workers: their answers do not say that whoever failed in it is in order again."""

    def _note_answer(self, member: Member) -> None:
        member.answered = True


def _lost(index: int, call: _Call[Note]) -> Arrival[Note]:
    return Arrival(index, call.handle, LOST, call.results[1:], call.note)
