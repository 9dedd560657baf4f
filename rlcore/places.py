"""Places: who fills the places of a crew, how long they are waited for, and who comes after those that are lost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from rlcore.errors import BadValueError, EnvError, MachineLost, UserError, WorkerLost
from rlcore.members import STARTING_S, Member, Patience, Watch
from rlcore.runtime.base import Handle, Ref, Resources, Runtime

#: So many failures of one worker, without two samples in a row between them, end the run.
TRIES = 3

#: Brings a worker that was just spawned to where the others are: ``(handle, index, life) -> calls``.
BringUp = Callable[[Handle, int, int], Iterable[Ref]]


class Places:
    """Workers, each in a place of its own.

    One that is lost is replaced by a new one, which ``bring_up`` makes what the others are; ``watch.lost`` is told of
    it. Not replaced is one whose error is the user's to mend (``UserError``; of environments only what they handed over
    against their contract, ``BadValueError``), and one that fails again and again: then its first error is raised as
    itself. That its machine is gone is no failure of a
    worker that is not alone: machines may come and go as often as they like.

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
        *,
        worker: str = "evaluator",
    ) -> None:
        """``worker`` is what each of them is called."""
        self.worker = worker
        self._runtime = runtime
        self._members = list(members)
        self._resources = resources
        self._bring_up = bring_up
        self._watch = watch
        self.timeout_s = patience.timeout_s
        self._room_s = patience.room_s
        self._told_vacant: list[int] = []
        #: Since when too few are there, where that is so.
        self._stuck_since: float | None = None
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
    def members(self) -> Sequence[Member]:
        """The places, in their order."""
        return self._members

    @property
    def lives(self) -> list[int]:
        """How often each place was filled anew."""
        return [member.life for member in self._members]

    @lives.setter
    def lives(self, lives: Sequence[int]) -> None:
        for member, life in zip(self._members, lives, strict=False):
            member.life = life

    # -- how long they are waited for

    def heard(self, member: Member, ref: Ref) -> None:
        """The call that has given ``ref`` is over, and all before it: time counts anew for those after it."""
        # It is not among them where one that came after it was heard of first.
        if any(one is ref for one in member.line):
            while member.line.popleft() is not ref:
                pass
        member.heard_at = self._runtime.now()

    def _limit(self, member: Member, lacks_room: bool) -> float:
        if member.answered:
            return self.timeout_s
        return self._room_s if lacks_room else max(self.timeout_s, STARTING_S)

    def due_by(self, member: Member, since: float) -> float:
        """When one that was called at ``since`` should have answered, or found room to start.

        What it was sent before has its own time: as far as it is known to have done that, it has as long again.
        """
        return max(since, member.heard_at) + self._limit(member, self._lacks_room(member))

    def is_late(self, member: Member, since: float) -> bool:
        """Whether it should have answered by now, or have done something else that it was sent before."""
        if self._runtime.now() < self.due_by(member, since):
            return False
        self._listen([member])
        return self._runtime.now() >= self.due_by(member, since)

    def listen(self, awaited: Mapping[Member, Ref]) -> None:
        """Looks what they have done that comes before what is awaited of them, where that is anything."""
        self._listen([member for member, ref in awaited.items() if member.line and member.line[0] is not ref])

    def _listen(self, members: Sequence[Member]) -> None:
        """Looks what they have done of what they were sent; time counts from now on where that is something."""
        lines = {member: list(member.line) for member in members if member.line}
        refs = [ref for line in lines.values() for ref in line]
        if not refs:
            return
        pending = {id(ref) for ref in self._runtime.wait(refs, len(refs), 0.0)[1]}
        for member, line in lines.items():
            done = next((i for i, ref in enumerate(line) if id(ref) in pending), len(line))
            if done:
                self.heard(member, line[done - 1])

    def replace_late(self, member: Member) -> None:
        """One that should have answered by now is replaced; its place is vacant, where it has no room to start."""
        if self._lacks_room(member):
            self._vacate(member)
        else:
            self.replace(member, WorkerLost(member.handle, no_answer(self._limit(member, lacks_room=False))))

    # -- places that nobody can fill for now

    def _present(self) -> list[Member]:
        return [member for member in self._members if not member.vacant]

    @property
    def is_stuck(self) -> bool:
        """Whether too many places are vacant for the others to go on: all of them."""
        return not self._present()

    def _lacks_room(self, member: Member) -> bool:
        return not member.answered and not self._runtime.wait([self._runtime.started(member.handle)], 1, 0.0)[0]

    def _vacate(self, member: Member) -> None:
        """The others go on. What it was sent is out of date by the time that it starts: another one waits for room."""
        assert member.build is not None, "who is in the driver's process lacks no room"
        self._runtime.kill(member.handle)
        member.begin_anew(self._runtime.spawn(member.build, self._resources))
        self._note_vacant(member)

    def _note_vacant(self, member: Member) -> None:
        member.vacant = True
        if self._stuck_since is None and self.is_stuck:
            self._stuck_since = self._runtime.now()

    def fill(self) -> None:
        """Those that have found room take part from now on."""
        for member in self._members:
            if member.vacant and not self._lacks_room(member):
                member.vacant = False
                self._bring(member)
        if not self.is_stuck:
            self._stuck_since = None
        self.tell_of_vacancies()

    def _wait_for_anyone(self) -> None:
        """Until one finds room, where all places are vacant. ``UserError`` where that takes too long."""
        limit = max(self.timeout_s, STARTING_S)
        if not self._runtime.wait([self._runtime.started(member.handle) for member in self._members], 1, limit)[0]:
            raise self._no_room()
        self.fill()

    def _no_room(self) -> UserError:
        limit, there = max(self.timeout_s, STARTING_S), len(self._present()) or "none"
        return UserError(
            f"there was room for {there} of {self.size} {self.worker}s for {limit:g} seconds: each needs "
            f"{_listed(self._resources)}, and there are {_listed(self._runtime.capacity())} in all"
        )

    def end_of_patience(self) -> float:
        """Until when it is waited for anyone, where they are stuck; infinite where they are not."""
        return math.inf if self._stuck_since is None else self._stuck_since + max(self.timeout_s, STARTING_S)

    def check_vacancies(self) -> None:
        """``UserError`` where they have been stuck for too long."""
        if self._runtime.now() >= self.end_of_patience():
            raise self._no_room()

    def tell_of_vacancies(self) -> None:
        """Says which places are vacant, where they are others than before."""
        vacant = [member.index for member in self._members if member.vacant]
        if vacant != self._told_vacant:
            self._told_vacant = vacant
            self._watch.vacant(vacant, self.size)

    def _note_missing(self) -> None:
        self.tell_of_vacancies()
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

    def replace(self, member: Member, error: Exception) -> None:
        """Fills the place anew, or raises where that is of no use."""
        if member.build is None:
            raise error
        self._runtime.kill(member.handle)
        if isinstance(error, UserError) and (isinstance(error, BadValueError) or not isinstance(error, EnvError)):
            raise error
        holds_up = isinstance(error, MachineLost) and member.taken == self._taken
        if not isinstance(error, MachineLost) or (holds_up and len(self._present()) == 1):
            self._note_failure(member, error)
        member.taken = self._taken
        self._watch.lost(member.index, _cause(error) + _times(member.life + 1))
        member.begin_anew(self._runtime.spawn(member.build, self._resources))
        if holds_up and len(self._present()) > 1:
            # Another machine, and no sample since: the others do not wait for it again.
            self._note_vacant(member)
        else:
            self._bring(member)

    def _bring(self, member: Member) -> None:
        """Makes it what the others are."""
        member.told = list(self._bring_up(member.handle, member.index, member.life))
        member.line.extend(member.told)

    def _note_failure(self, member: Member, error: Exception) -> None:
        """Raises the first of them where there have been too many."""
        member.failures += 1
        first = member.first_failure = member.first_failure or error
        if member.failures >= TRIES:
            first.add_note(f"{self.worker} {member.index} was replaced after this, {TRIES - 1} times, and failed again")
            if isinstance(first, WorkerLost):
                first.add_note("what dies or hangs without an error of its own: --runtime inline shows where")
            raise first


def _listed(resources: Resources) -> str:
    """``"1 CPU, 2 simulator"``"""
    amounts = {"CPU": resources.cpus, "GPU": resources.gpus, **resources.custom}
    return ", ".join(f"{amount:g} {name}" for name, amount in amounts.items() if amount or name == "CPU")


def no_answer(seconds: float) -> str:
    """What is said of a worker that hangs."""
    return f"it did not answer within {seconds:g} seconds (evaluators.timeout_s)"


def _times(losses: int) -> str:
    """What is added where a place has been filled anew before."""
    return f" (replaced {losses} times by now)" if losses > 1 else ""


def _cause(error: Exception) -> str:
    """Why a worker was lost, in one line."""
    if isinstance(error, WorkerLost) and error.cause:
        return error.cause
    return f"{type(error).__name__}: {error}".strip().partition("\n")[0]
