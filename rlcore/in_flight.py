"""Calls in flight on the workers of a crew: a bounded number each, whose answers are taken as they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rlcore.crew import LOST, Crew, Lost, Member, no_answer
from rlcore.errors import WorkerLost
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
    #: When the worker can have begun with it at the earliest.
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
    replaced, as the crew does; all its calls arrive as ``LOST``.
    """

    def __init__(self, runtime: Runtime, crew: Crew, limit: int) -> None:
        self._runtime = runtime
        self._crew = crew
        self._limit = limit
        self._calls: dict[int, deque[_Call[Note]]] = {member.index: deque() for member in crew.members}

    def room(self, index: int) -> int:
        """How many more calls the worker in that place may be sent."""
        return self._limit - len(self._calls[index])

    def idle(self) -> list[int]:
        """The places that have room for a call, those with the fewest in flight first."""
        return sorted((i for i in self._calls if self.room(i) > 0), key=lambda i: len(self._calls[i]))

    def count(self) -> int:
        """How many calls are in flight."""
        return sum(len(calls) for calls in self._calls.values())

    def submit(self, index: int, note: Note, method: str, *args: Any, returns: int = 1) -> tuple[Ref, ...]:
        """Calls the worker in that place; gives references to what will come of it."""
        assert self.room(index) > 0, f"{self._limit} calls are in flight on worker {index}"
        member = self._crew.members[index]
        refs = member.handle.submit(method, *args, returns=returns)
        results = refs if returns != 1 else (refs,)
        self._calls[index].append(_Call(member.handle, results, member.told, self._runtime.now(), note))
        member.told = []
        return results

    @property
    def next(self) -> list[Ref]:
        """The oldest call of each worker: what to wait for."""
        return [calls[0].results[0] for calls in self._calls.values() if calls]

    def arrived(self) -> list[Arrival[Note]]:
        """Every call that has come to an end and was not given before; it waits for none."""
        arrivals = self._of_replaced()
        while due := self._due():
            values, errors = self._crew.gather({m: [*call.told, call.results[0]] for m, call in due.items()})
            for member, own in values.items():
                arrivals.append(self._take(member, own[-1]))
            for member, error in errors.items():
                arrivals += self._give_up(member, error)
        now = self._runtime.now()
        for member in self._crew.members:
            calls = self._calls[member.index]
            if calls and now >= calls[0].since + self._crew.time_limit(member):
                error = WorkerLost(member.handle, no_answer(self._crew.time_limit(member)))
                arrivals += self._give_up(member, error)
        return arrivals

    def patience(self) -> float:
        """Seconds until the first of those that have not answered counts as hanging; infinite with nothing in flight.

        Whoever waits for ``next`` should wait no longer.
        """
        now = self._runtime.now()
        limits = [
            self._calls[member.index][0].since + self._crew.time_limit(member) - now
            for member in self._crew.members
            if self._calls[member.index]
        ]
        return max(0.0, min(limits, default=float("inf")))

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
        refs = self.next
        if not refs:
            return {}
        _, pending = self._runtime.wait(refs, len(refs), 0.0)
        waiting = {id(ref) for ref in pending}
        members = [member for member in self._crew.members if self._calls[member.index]]
        oldest = {member: self._calls[member.index][0] for member in members}
        return {member: call for member, call in oldest.items() if id(call.results[0]) not in waiting}

    def _take(self, member: Member, value: Any) -> Arrival[Note]:
        calls = self._calls[member.index]
        call = calls.popleft()
        if calls:
            calls[0].since = max(calls[0].since, self._runtime.now())
        self._crew.note_sample(member)
        return Arrival(member.index, call.handle, value, call.results[1:], call.note)

    def _give_up(self, member: Member, error: Exception) -> Sequence[Arrival[Note]]:
        calls, self._calls[member.index] = self._calls[member.index], deque()
        self._crew.replace(member, error)
        return [_lost(member.index, call) for call in calls]


def _lost(index: int, call: _Call[Note]) -> Arrival[Note]:
    return Arrival(index, call.handle, LOST, call.results[1:], call.note)
