"""Crew: the workers that an EvaluatorSet calls together, replaced where they are lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from rlcore.errors import EnvError, MachineLost, UserError, WorkerLost
from rlcore.members import STARTING_S, Answer, Member, Patience, Watch
from rlcore.runtime.base import Handle, Ref, Resources, Runtime

#: So many failures of one worker, without two samples in a row between them, end the run.
TRIES = 3

#: A call that was submitted to a worker.
Call = tuple[Handle, Ref]

#: Brings a worker that was just spawned to where the others are: ``(handle, index, life) -> calls``.
BringUp = Callable[[Handle, int, int], Iterable[Ref]]


class Lost(Enum):
    """Stands for the outcome of a call whose worker has been lost."""

    LOST = 0


LOST = Lost.LOST


class Crew:
    """Workers that are called together, each in a place of its own.

    One that is killed, raises or does not answer in time is replaced by a new one, which ``bring_up`` makes what the
    others are; ``watch.lost`` is told of it. Not replaced is a worker of a runtime that does not isolate
    them, one whose error is the user's to mend (``UserError``, except those of environments), and one that fails again
    and again: then its first error is raised as itself. That its machine is gone is no failure of a worker that is not
    alone: machines may come and go as often as they like.

    A worker that finds no room to start in, such as one whose machine is gone, is waited for ``patience.room_s``
    seconds, and not at all where another machine goes before anyone has given a sample. Then its place is vacant:
    nothing is asked of it and the others go on, until it has started after all; ``watch.vacant`` is told which places
    are. Where that is so of all of them, it is waited for any.
    """

    def __init__(
        self,
        runtime: Runtime,
        members: Sequence[Member],
        resources: Resources,
        bring_up: BringUp,
        watch: Watch,
        patience: Patience,
    ) -> None:
        self._runtime = runtime
        self._members = list(members)
        self._resources = resources
        self._bring_up = bring_up
        self._watch = watch
        self._timeout_s = patience.timeout_s
        self._room_s = patience.room_s
        self._told_vacant: list[int] = []
        #: Samples of all so far.
        self._taken = 0

    @property
    def size(self) -> int:
        """How many places there are."""
        return len(self._members)

    @property
    def handles(self) -> list[Handle]:
        """Who fills the places now, in their order, without those that are vacant."""
        return list(self.by_place.values())

    @property
    def by_place(self) -> dict[int, Handle]:
        """The same, by the index of the place."""
        return {member.index: member.handle for member in self._present()}

    @property
    def lives(self) -> list[int]:
        """How often each place was filled anew."""
        return [member.life for member in self._members]

    @lives.setter
    def lives(self, lives: Sequence[int]) -> None:
        for member, life in zip(self._members, lives, strict=False):
            member.life = life

    # -- calls on all

    def sample(self, method: str, returns: int) -> list[Answer]:
        """Everyone's sample, of so many results: a worker that gives them is in order."""
        self._fill()
        while not (answers := self._ask(method, (), returns, self._present())):
            self._wait_for_anyone()
        for answer in answers:
            self._note_sample(self._members[answer.place])
        self._note_missing()
        return answers

    def _note_sample(self, member: Member) -> None:
        self._taken += 1
        member.samples += 1
        if member.samples > 1:
            member.failures, member.first_failure = 0, None

    def sample_again(self, index: int, method: str, returns: int) -> Answer:
        """Another sample of one place, or of any where that is vacant."""
        while True:
            able = sorted(self._present(), key=lambda member: member.index != index)
            if answers := self._ask(method, (), returns, able[:1]):
                return answers[0]
            if not self._present():
                self._wait_for_anyone()

    def tell(self, method: str, *args: Any) -> None:
        """Calls everyone and waits for nobody; whoever fails in it is replaced when next asked."""
        self.expect([(handle, handle.submit(method, *args)) for handle in self.handles])

    def expect(self, calls: Sequence[Call]) -> None:
        """Calls that were submitted are to go well, of workers that are still there."""
        if not self._runtime.isolates:
            self._runtime.get([ref for _, ref in calls])
            return
        for handle, ref in calls:
            member = self._filled_by(handle)
            if member is not None:
                member.told.append(ref)

    def _ask(self, method: str, args: Sequence[Any], returns: int, asked: Sequence[Member]) -> list[Answer]:
        answers: dict[int, Answer] = {}
        waiting = asked
        while waiting:
            results = {member: _submit(member.handle, method, args, returns) for member in waiting}
            values, errors = self._gather({member: [*member.told, refs[0]] for member, refs in results.items()})
            for member, own in values.items():
                member.answered, member.told = True, []
                answers[member.index] = Answer(member.handle, own[-1], results[member][1:], member.index)
            for member, error in errors.items():
                self._replace(member, error)
            waiting = [member for member in errors if not member.vacant]
        return [answers[member.index] for member in asked if member.index in answers]

    # -- calls that others have submitted

    def settle(self, calls: Sequence[Call]) -> list[Any]:
        """The values of calls, one a worker; ``LOST`` where the worker is, or has no room to start.

        Whoever was lost has been replaced.

        What a worker raises is raised.
        """
        filled = [self._filled_by(handle) for handle, _ in calls]
        values, errors = self._gather(
            {member: [ref] for member, (_, ref) in zip(filled, calls, strict=True) if member is not None}
        )
        for error in errors.values():
            if not isinstance(error, WorkerLost):
                raise error
        for member, error in errors.items():
            self._replace(member, error)
        return [values[member][0] if member in values else LOST for member in filled]

    def result(self, ref: Ref) -> Any:
        """The value of a reference. ``WorkerLost`` also where it does not come in time."""
        if self._runtime.isolates and not self._runtime.wait([ref], 1, self._timeout_s)[0]:
            raise WorkerLost("of the evaluators", no_answer(self._timeout_s))
        return self._runtime.get(ref)

    def _filled_by(self, handle: Handle) -> Member | None:
        return next((member for member in self._present() if member.handle is handle), None)

    # -- outcomes

    def _gather(self, calls: Mapping[Member, list[Ref]]) -> tuple[dict[Member, list[Any]], dict[Member, Exception]]:
        """The values of everyone's calls, or why there are none. Neither for those whose place is vacant by then."""
        if not self._runtime.isolates:
            return {member: self._runtime.get(refs) for member, refs in calls.items()}, {}
        errors = self._hanging(calls)
        values: dict[Member, list[Any]] = {}
        due = {member: refs for member, refs in calls.items() if member not in errors and not member.vacant}
        try:
            found = iter(self._runtime.get([ref for refs in due.values() for ref in refs]))
        except Exception:  # whose it is shows one by one
            for member, refs in due.items():
                try:
                    values[member] = self._runtime.get(refs)
                except Exception as error:  # what becomes of it is decided by whoever asked
                    errors[member] = error
        else:
            values = {member: [next(found) for _ in refs] for member, refs in due.items()}
        return values, errors

    def _hanging(self, calls: Mapping[Member, list[Ref]]) -> dict[Member, Exception]:
        """Waits for all calls; those that have not answered in time. Without room for them, their place is vacant."""
        hanging: dict[Member, Exception] = {}
        started, pending = self._runtime.now(), dict(calls)
        while pending:
            limit = min(self._limit(member, self._lacks_room(member)) for member in pending)
            refs = [ref for own in pending.values() for ref in own]
            _, late = self._runtime.wait(refs, len(refs), max(0.0, started + limit - self._runtime.now()))
            pending = {member: own for member, own in pending.items() if any(ref in late for ref in own)}
            for member in list(pending):
                lacks_room = self._lacks_room(member)
                if self._limit(member, lacks_room) > limit:
                    continue
                del pending[member]
                if lacks_room:
                    self._vacate(member)
                else:
                    hanging[member] = WorkerLost(member.handle, no_answer(limit))
        self._tell_of_vacancies()
        return hanging

    def _limit(self, member: Member, lacks_room: bool) -> float:
        if member.answered:
            return self._timeout_s
        return self._room_s if lacks_room else max(self._timeout_s, STARTING_S)

    # -- places that nobody can fill for now

    def _present(self) -> list[Member]:
        return [member for member in self._members if not member.vacant]

    def _lacks_room(self, member: Member) -> bool:
        return not member.answered and not self._runtime.wait([self._runtime.started(member.handle)], 1, 0.0)[0]

    def _vacate(self, member: Member) -> None:
        """The others go on; what it was told is out of date by the time that it starts."""
        member.vacant, member.told = True, []

    def _fill(self) -> None:
        """Those that have found room take part from now on."""
        for member in self._members:
            if member.vacant and not self._lacks_room(member):
                member.vacant = False
                member.life += 1
                member.told = list(self._bring_up(member.handle, member.index, member.life))
        self._tell_of_vacancies()

    def _wait_for_anyone(self) -> None:
        """Until one finds room, where all places are vacant. ``UserError`` where that takes too long."""
        limit = max(self._timeout_s, STARTING_S)
        if not self._runtime.wait([self._runtime.started(member.handle) for member in self._members], 1, limit)[0]:
            raise UserError(
                f"there was room for none of {self.size} evaluators for {limit:g} seconds: each needs "
                f"{_listed(self._resources)}, and there are {_listed(self._runtime.capacity())} in all"
            )
        self._fill()

    def _tell_of_vacancies(self) -> None:
        vacant = [member.index for member in self._members if member.vacant]
        if vacant != self._told_vacant:
            self._told_vacant = vacant
            self._watch.vacant(vacant, self.size)

    def _note_missing(self) -> None:
        self._tell_of_vacancies()
        for member in self._members:
            member.missing += member.vacant

    def take_missing(self) -> list[int]:
        """By place, how many rounds have gone on while it was vacant since this was asked last."""
        missing = [member.missing for member in self._members]
        for member in self._members:
            member.missing = 0
        return missing

    def end(self, method: str, seconds: float) -> None:
        """Ends all workers, after a call of ``method`` that has so many seconds."""
        ending = [handle.submit(method) for handle in self.handles]
        self._runtime.wait(ending, len(ending), seconds)
        for member in self._members:
            self._runtime.kill(member.handle)

    # -- losses

    def _replace(self, member: Member, error: Exception) -> None:
        """Fills the place anew, or raises where that is of no use."""
        if member.build is None:
            raise error
        self._runtime.kill(member.handle)
        if isinstance(error, UserError) and not isinstance(error, EnvError):
            raise error
        holds_up = isinstance(error, MachineLost) and member.taken == self._taken
        if not isinstance(error, MachineLost) or (holds_up and len(self._present()) == 1):
            self._note_failure(member, error)
        member.taken = self._taken
        self._watch.lost(member.index, _cause(error))
        member.handle = self._runtime.spawn(member.build, self._resources)
        member.life += 1
        member.answered, member.samples = False, 0
        member.told = list(self._bring_up(member.handle, member.index, member.life))
        if holds_up and len(self._present()) > 1:
            # Another machine, and no sample since: the others do not wait for it again.
            self._vacate(member)

    def _note_failure(self, member: Member, error: Exception) -> None:
        """Raises the first of them where there have been too many."""
        member.failures += 1
        first = member.first_failure = member.first_failure or error
        if member.failures >= TRIES:
            first.add_note(f"evaluator {member.index} was replaced after this, {TRIES - 1} times, and failed again")
            raise first


def _submit(handle: Handle, method: str, args: Sequence[Any], returns: int) -> tuple[Ref, ...]:
    refs = handle.submit(method, *args, returns=returns)
    return refs if returns != 1 else (refs,)


def _listed(resources: Resources) -> str:
    """``"1 CPU, 2 simulator"``"""
    amounts = {"CPU": resources.cpus, "GPU": resources.gpus, **resources.custom}
    return ", ".join(f"{amount:g} {name}" for name, amount in amounts.items() if amount or name == "CPU")


def no_answer(seconds: float) -> str:
    """What is said of a worker that hangs."""
    return f"it did not answer within {seconds:g} seconds (evaluators.timeout_s)"


def _cause(error: Exception) -> str:
    """Why a worker was lost, in one line."""
    if isinstance(error, WorkerLost) and error.cause:
        return error.cause
    return " ".join(f"{type(error).__name__}: {error}".split())
