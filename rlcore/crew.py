"""Crew: the workers that an EvaluatorSet calls together, replaced where they are lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from rlcore.errors import EnvError, UserError, WorkerLost
from rlcore.runtime.base import Handle, Ref, Resources, Runtime

#: So many failures of one worker, without two samples in a row between them, end the run.
TRIES = 3

#: Seconds that a worker has until its first answer, at the least: processes start, and frameworks are imported.
STARTING_S = 300.0

#: Seconds after which somebody is replaced who has failed while others are still at work.
LOOK_S = 1.0

#: A call that was submitted to a worker.
Call = tuple[Handle, Ref]

#: Brings a worker that was just spawned to where the others are: ``(handle, index, life) -> calls``.
BringUp = Callable[[Handle, int, int], Iterable[Ref]]


class Lost(Enum):
    """Stands for the outcome of a call whose worker has been lost."""

    LOST = 0


LOST = Lost.LOST


class Answer(NamedTuple):
    """What a worker answered: the first result as a value, and references to the others.

    ``late`` is how many rounds had gone on without it.
    """

    handle: Handle
    value: Any
    others: tuple[Ref, ...]
    place: int
    late: int = 0


@dataclass(eq=False)
class Member:
    """One place in the crew, and who fills it now. ``build`` is None for an object of the driver's own."""

    index: int
    build: Callable[[], Any] | None
    handle: Handle
    #: How often it has been replaced.
    life: int = 0
    #: Since when all went well, how often it failed, and how first.
    failures: int = 0
    first_failure: Exception | None = None
    #: Of the one who fills it now: whether it has answered, and how many samples it has given.
    answered: bool = False
    samples: int = 0
    #: Calls whose results nobody needs; that they went well is looked at with the next answer.
    told: list[Ref] = field(default_factory=list)


@dataclass
class Pending:
    """What a worker was asked when: calls that are to have gone well, the last with a result, and its other results."""

    since: float
    refs: list[Ref]
    others: tuple[Ref, ...] = ()


class Crew:
    """Workers that are called together, each in a place of its own.

    One that is killed, raises or does not answer in time is replaced by a new one, which ``bring_up`` makes what the
    others are; ``on_loss`` is told ``(index, cause)``. Not replaced is a worker of a runtime that does not isolate
    them, one whose error is the user's to mend (``UserError``, except those of environments), and one that fails again
    and again: then its first error is raised as itself.
    """

    def __init__(
        self,
        runtime: Runtime,
        members: Sequence[Member],
        resources: Resources,
        bring_up: BringUp,
        on_loss: Callable[[int, str], None],
        timeout_s: float,
    ) -> None:
        self._runtime = runtime
        self._members = list(members)
        self._resources = resources
        self._bring_up = bring_up
        self._on_loss = on_loss
        self.timeout_s = timeout_s

    @property
    def handles(self) -> list[Handle]:
        """Who fills the places now, in their order."""
        return [member.handle for member in self._members]

    @property
    def lives(self) -> list[int]:
        """How often each place was filled anew."""
        return [member.life for member in self._members]

    @lives.setter
    def lives(self, lives: Sequence[int]) -> None:
        for member, life in zip(self._members, lives, strict=False):
            member.life = life

    # -- calls on all

    def ask(self, method: str, *args: Any) -> list[Any]:
        """Everyone's answer, in the order of the places; the new one's where one was replaced."""
        return [answer.value for answer in self._ask(method, args, 1, self._members)]

    def sample(self, method: str, returns: int) -> list[Answer]:
        """Everyone's sample, of so many results: a worker that gives them is in order."""
        answers = self._ask(method, (), returns, self._members)
        for member in self._members:
            self._note_sample(member)
        return answers

    def _note_sample(self, member: Member) -> None:
        member.samples += 1
        if member.samples > 1:
            member.failures, member.first_failure = 0, None

    def sample_again(self, index: int, method: str, returns: int) -> Answer:
        """Another sample of one place."""
        return self._ask(method, (), returns, [self._members[index]])[0]

    def tell(self, method: str, *args: Any) -> None:
        """Calls everyone and waits for nobody; whoever fails in it is replaced when next asked."""
        self.expect([(member.handle, member.handle.submit(method, *args)) for member in self._members])

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
        pending: dict[Member, Pending] = {}

        def call(member: Member) -> None:
            refs = _submit(member.handle, method, args, returns)
            pending[member] = Pending(self._runtime.now(), [*member.told, refs[0]], refs[1:])

        for member in asked:
            call(member)
        for member, one, outcome in self._outcomes(pending):
            if isinstance(outcome, Exception):
                self._replace(member, outcome)
                call(member)
            else:
                member.answered, member.told = True, []
                answers[member.index] = Answer(member.handle, outcome[-1], one.others, member.index)
        return [answers[member.index] for member in asked]

    # -- calls that others have submitted

    def settle(self, calls: Sequence[Call]) -> list[Any]:
        """The values of calls, one a worker; ``LOST`` where the worker is, which has been replaced then.

        What a worker raises is raised as itself, at once and by whichever of them: what optimizers call are graphs,
        which are alike in all workers, and a new one would fail as well. (In sampling, environments fail each in its
        own way, and whoever raises there is replaced.)
        """
        started, values = self._runtime.now(), dict[Member, Any]()
        filled = [self._filled_by(handle) for handle, _ in calls]
        asked = [(member, ref) for member, (_, ref) in zip(filled, calls, strict=True) if member is not None]
        pending = {member: Pending(started, [ref]) for member, ref in asked}
        for member, _, outcome in self._outcomes(pending):
            if not isinstance(outcome, Exception):
                values[member] = outcome[0]
            elif isinstance(outcome, WorkerLost):
                self._replace(member, outcome)
            else:
                raise outcome
        return [LOST if member is None else values.get(member, LOST) for member in filled]

    def give_up(self, handles: Sequence[Handle]) -> None:
        """Replaces workers that something has been waiting for in vain."""
        for member in filter(None, map(self._filled_by, handles)):
            self._replace(member, WorkerLost(member.handle, no_answer(self.timeout_s)))

    def result(self, ref: Ref) -> Any:
        """The value of a reference. ``WorkerLost`` also where it does not come in time."""
        if self._runtime.isolates and not self._runtime.wait([ref], 1, self.timeout_s)[0]:
            raise WorkerLost("of the evaluators", no_answer(self.timeout_s))
        return self._runtime.get(ref)

    def _filled_by(self, handle: Handle) -> Member | None:
        return next((member for member in self._members if member.handle is handle), None)

    # -- outcomes

    def _outcomes(self, pending: dict[Member, Pending]) -> Iterator[tuple[Member, Pending, list[Any] | Exception]]:
        """The values of everyone's calls, or why there are none, until none are left.

        Of all of them together, where they come within ``LOOK_S``; else of those that are there by then, and so on: who
        is slow, or hangs, does not keep the others from being replaced. More may be added in between.
        """
        if not self._runtime.isolates:
            while pending:
                member, one = next(iter(pending.items()))
                del pending[member]
                yield member, one, self._runtime.get(one.refs)
        while pending:
            found = self._look_at(pending)
            taken = {member: pending.pop(member) for member in found}
            for member, one in taken.items():
                yield member, one, found[member]

    def _look_at(self, pending: Mapping[Member, Pending]) -> dict[Member, list[Any] | Exception]:
        """Waits a while for all calls; the outcomes of those that are over, in the order of ``pending``."""
        now, ends = self._runtime.now(), {member: one.since + self._limit(member) for member, one in pending.items()}
        refs = [ref for one in pending.values() for ref in one.refs]
        _, waiting = self._runtime.wait(refs, len(refs), max(0.0, min(LOOK_S, min(ends.values()) - now)))
        late, now = {id(ref) for ref in waiting}, self._runtime.now()
        done = {member: one for member, one in pending.items() if not any(id(ref) in late for ref in one.refs)}
        found = self._values(done)
        for member in pending:
            if member not in done and now >= ends[member]:
                found[member] = WorkerLost(member.handle, no_answer(self._limit(member)))
        return {member: found[member] for member in pending if member in found}

    def _values(self, done: Mapping[Member, Pending]) -> dict[Member, list[Any] | Exception]:
        found: dict[Member, list[Any] | Exception] = {}
        try:
            values = iter(self._runtime.get([ref for one in done.values() for ref in one.refs]))
        except Exception:  # whose it is shows one by one
            for member, one in done.items():
                try:
                    found[member] = self._runtime.get(one.refs)
                except Exception as error:  # what becomes of it is decided by whoever asked
                    found[member] = error
        else:
            found.update({member: [next(values) for _ in one.refs] for member, one in done.items()})
        return found

    def _limit(self, member: Member) -> float:
        return self.timeout_s if member.answered else max(self.timeout_s, STARTING_S)

    # -- losses

    def _replace(self, member: Member, error: Exception) -> None:
        """Fills the place anew, or raises where that is of no use."""
        if member.build is None:
            raise error
        self._runtime.kill(member.handle)
        if isinstance(error, UserError) and not isinstance(error, EnvError):
            raise error
        member.failures += 1
        first = member.first_failure = member.first_failure or error
        if member.failures >= TRIES:
            first.add_note(f"evaluator {member.index} was replaced after this, {TRIES - 1} times, and failed again")
            raise first
        self._on_loss(member.index, _cause(error))
        member.handle = self._runtime.spawn(member.build, self._resources)
        member.life += 1
        member.answered, member.samples = False, 0
        member.told = list(self._bring_up(member.handle, member.index, member.life))


def _submit(handle: Handle, method: str, args: Sequence[Any], returns: int) -> tuple[Ref, ...]:
    refs = handle.submit(method, *args, returns=returns)
    return refs if returns != 1 else (refs,)


def no_answer(seconds: float) -> str:
    """What is said of a worker that hangs."""
    return f"it did not answer within {seconds:g} seconds (evaluators.timeout_s)"


def _cause(error: Exception) -> str:
    """Why a worker was lost, in one line."""
    if isinstance(error, WorkerLost) and error.cause:
        return error.cause
    return " ".join(f"{type(error).__name__}: {error}".split())
