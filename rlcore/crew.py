"""Crew: the workers that an EvaluatorSet calls together, replaced where they are lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NoReturn

from rlcore.errors import NonFiniteError, UserError, ValueLost, WorkerFailed, WorkerLost
from rlcore.members import Answer, Member, Pending
from rlcore.places import Places, no_answer
from rlcore.runtime.base import Handle, Ref

#: Seconds after which somebody is replaced who has failed while others are still at work.
LOOK_S = 1.0

#: A call that was submitted to a worker.
Call = tuple[Handle, Ref]


class Lost(Enum):
    """Stands for the outcome of a call whose worker has been lost."""

    LOST = 0


LOST = Lost.LOST


class Crew(Places):
    """Workers that are called together. One that is killed, raises or does not answer in time is replaced, unless its
    runtime does not isolate them."""

    # -- calls on all

    def ask(self, method: str, *args: Any) -> dict[int, Any]:
        """By place, the answers of those that are there; the new one's where one was replaced. Somebody's at least:
        where all places are vacant, it waits for anyone."""
        self.fill()
        while not (answers := self._ask(method, args, 1, self._present())):
            self._wait_for_anyone()
        return {answer.place: answer.value for answer in answers}

    def ask_one(self, index: int, method: str, *args: Any) -> Any:
        """The answer of whoever is in that place; None where nobody is."""
        answers = self._ask(method, args, 1, [self._members[index]] if not self._members[index].vacant else [])
        return answers[0].value if answers else None

    def sample(self, method: str, returns: int) -> list[Answer]:
        """Everyone's sample, of so many results: a worker that gives them is in order."""
        self.fill()
        while not (answers := self._ask(method, (), returns, self._present())):
            self._wait_for_anyone()
        for answer in answers:
            self.note_sample(self._members[answer.place])
        self._note_missing()
        return answers

    def note_sample(self, member: Member) -> None:
        """The worker has given a sample, or done something like that, and is in order."""
        member.answered = True
        self._taken += 1
        member.samples += 1
        if member.samples > 1:
            member.failures, member.first_failure = 0, None

    def sample_of(self, index: int, method: str, returns: int) -> Answer | None:
        """Another sample of one place; None where nobody is there any more."""
        answers = self._ask(method, (), returns, [one for one in self._present() if one.index == index])
        return answers[0] if answers else None

    def sample_again(self, index: int, method: str, returns: int) -> Answer:
        """Another sample of one place, or of any where that is vacant."""
        while True:
            able = sorted(self._present(), key=lambda member: member.index != index)
            for member in able[:1]:
                if answer := self.sample_of(member.index, method, returns):
                    return answer
            if not able:
                self._wait_for_anyone()

    def tell_one(self, index: int, method: str, *args: Any) -> None:
        """Calls the worker of one place and does not wait for it."""
        handle = self._members[index].handle
        self.expect([(handle, handle.submit(method, *args))])

    def tell(self, method: str, *args: Any) -> None:
        """Calls everyone and waits for nobody; whoever fails in it is replaced when next asked."""
        self.expect([(handle, handle.submit(method, *args)) for handle in self.handles])

    def expect(self, calls: Sequence[Call]) -> None:
        """Calls that were submitted are to go well, of workers that are still there."""
        for handle, ref in calls:
            member = self._filled_by(handle)
            if not self._runtime.isolates:
                self._get_here(member, [ref])
            elif member is not None:
                member.told.append(ref)
                member.line.append(ref)

    def send(self, member: Member, method: str, args: Sequence[Any], returns: int) -> tuple[Ref, ...]:
        """Calls whoever is in that place; references to the results. Whoever waits for it says ``heard``."""
        refs = member.handle.submit(method, *args, returns=returns)
        results: tuple[Ref, ...] = refs if returns != 1 else (refs,)
        member.line.append(results[0])
        return results

    def _ask(self, method: str, args: Sequence[Any], returns: int, asked: Sequence[Member]) -> list[Answer]:
        answers: dict[int, Answer] = {}
        pending: dict[Member, Pending] = {}

        def call(member: Member) -> None:
            refs = self.send(member, method, args, returns)
            pending[member] = Pending(self._runtime.now(), [*member.told, refs[0]], refs[1:])

        if self._runtime.isolates:
            self._listen(asked)
        for member in asked:
            call(member)
        for member, one, outcome in self.outcomes(pending):
            if isinstance(outcome, Exception):
                self.replace(member, outcome)
                if not member.vacant:
                    call(member)
            else:
                member.answered, member.told = True, []
                self.heard(member, one.refs[-1])
                answers[member.index] = Answer(member.handle, outcome[-1], one.others, member.index)
        return [answers[member.index] for member in asked if member.index in answers]

    # -- calls that others have submitted

    def settle(self, calls: Sequence[Call]) -> list[Any]:
        """The values of calls, one a worker; ``LOST`` where the worker is, or has no room to start.

        Whoever was lost has been replaced.

        What a worker raises is raised as itself, at once and by whichever of them: what optimizers call are graphs,
        which are alike in all workers, and a new one would fail as well. (In sampling, environments fail each in its
        own way, and whoever raises there is replaced.)
        """
        values = dict[Member, Any]()
        filled = [self._filled_by(handle) for handle, _ in calls]
        if self._runtime.isolates:
            self._listen([member for member in filled if member is not None])
        started = self._runtime.now()
        asked = [(member, ref) for member, (_, ref) in zip(filled, calls, strict=True) if member is not None]
        pending = {member: Pending(started, [ref]) for member, ref in asked}
        for member, _, outcome in self.outcomes(pending):
            if not isinstance(outcome, Exception):
                values[member] = outcome[0]
            elif isinstance(outcome, WorkerLost):
                self.replace(member, outcome)
            else:
                raise outcome
        return [LOST if member is None else values.get(member, LOST) for member in filled]

    def give_up(self, handles: Sequence[Handle]) -> None:
        """Replaces workers that something has been waiting for in vain."""
        for member in filter(None, map(self._filled_by, handles)):
            self.replace(member, WorkerLost(member.handle, no_answer(self.timeout_s)))

    def result(self, ref: Ref) -> Any:
        """The value of a reference. ``WorkerLost`` also where it does not come in time."""
        if self._runtime.isolates and not self._runtime.wait([ref], 1, self.timeout_s)[0]:
            raise WorkerLost("of the evaluators", no_answer(self.timeout_s))
        return self._runtime.get(ref)

    def _filled_by(self, handle: Handle) -> Member | None:
        return next((member for member in self._present() if member.handle is handle), None)

    # -- outcomes

    def outcomes(self, pending: dict[Member, Pending]) -> Iterator[tuple[Member, Pending, list[Any] | Exception]]:
        """The values of everyone's calls, or why there are none, until none are left.

        Of all of them together, where they come within ``LOOK_S``; else of those that are there by then, and so on: who
        is slow, or hangs, does not keep the others from being replaced. More may be added in between. Those whose
        places are vacant by then are left out.
        """
        if not self._runtime.isolates:
            while pending:
                member, one = next(iter(pending.items()))
                del pending[member]
                yield member, one, self._get_here(member, one.refs)
        while pending:
            found = self._look_at(pending)
            for member in [member for member in pending if member.vacant]:
                del pending[member]
            taken = {member: pending.pop(member) for member in found}
            for member, one in taken.items():
                yield member, one, found[member]

    def _get_here(self, member: Member | None, refs: Sequence[Ref]) -> list[Any]:
        """Values where nothing isolates workers from the driver: what they raise is raised, and nobody is replaced."""
        try:
            values: list[Any] = self._runtime.get(list(refs))
        except Exception as error:
            if member is not None:
                self._raise(member, error)
            raise
        return values

    def _raise(self, member: Member, error: Exception) -> NoReturn:
        """Raises what a worker has raised, which ends the run."""
        raise error

    def _look_at(self, pending: Mapping[Member, Pending]) -> dict[Member, list[Any] | Exception]:
        """Waits a while for all calls; the outcomes of those that are over, in the order of ``pending``."""
        now, ends = self._runtime.now(), [self.due_by(member, one.since) for member, one in pending.items()]
        refs = [ref for one in pending.values() for ref in one.refs]
        _, waiting = self._runtime.wait(refs, len(refs), max(0.0, min(LOOK_S, min(ends) - now)))
        late = {id(ref) for ref in waiting}
        done = {member: one for member, one in pending.items() if not any(id(ref) in late for ref in one.refs)}
        found = self._values(done)
        self._listen([member for member in pending if member not in done])
        now = self._runtime.now()
        for member, one in pending.items():
            if member not in done and now >= self.due_by(member, one.since):
                if self._lacks_room(member):
                    self._vacate(member)
                else:
                    found[member] = WorkerLost(member.handle, no_answer(self._limit(member, lacks_room=False)))
        self.tell_of_vacancies()
        return {member: found[member] for member in pending if member in found}

    def _values(self, done: Mapping[Member, Pending]) -> dict[Member, list[Any] | Exception]:
        found: dict[Member, list[Any] | Exception] = {}
        try:
            values = iter(self._runtime.get([ref for one in done.values() for ref in one.refs]))
        except Exception:  # whose it is shows one by one
            for member, one in done.items():
                try:
                    found[member] = [*map(self._value_told, one.refs[:-1]), self._runtime.get(one.refs[-1])]
                except Exception as error:  # what becomes of it is decided by whoever asked
                    found[member] = error
        else:
            found.update({member: [next(values) for _ in one.refs] for member, one in done.items()})
        return found

    def _value_told(self, ref: Ref) -> Any:
        """Of a call that nobody waited for. That it lacked a value was nothing that the worker did."""
        try:
            return self._runtime.get(ref)
        except ValueLost:
            return LOST


class StrictCrew(Crew):
    """Workers that are replaced where they are lost, and whose errors are the program's: those end the run.

    What is no error of rlcore's own is raised as the cause of a ``WorkerFailed`` that says whose it is.
    """

    def replace(self, member: Member, error: Exception) -> None:
        if not isinstance(error, WorkerLost):
            self._raise(member, error)
        super().replace(member, error)

    def _raise(self, member: Member, error: Exception) -> NoReturn:
        if isinstance(error, UserError | NonFiniteError | WorkerLost | WorkerFailed):
            raise error
        said = f"{type(error).__name__}: {error}".strip().partition("\n")[0].rstrip(":")
        failed = WorkerFailed(f"{self.worker} {member.index} raised {said}")
        for note in getattr(error, "__notes__", ()):
            failed.add_note(note)
        raise failed from error


class WholeCrew(StrictCrew):
    """The same, where each does a part of the work that no other can do: they are stuck while any is missing."""

    @property
    def is_stuck(self) -> bool:
        return len(self._present()) < self.size
