"""Snapshots: what a learner goes on from that takes the place of one that was lost, kept by the replay actors."""

from __future__ import annotations

from rlcore.crew import LOST, Crew
from rlcore.errors import RlcoreError, ValueLost, WorkerLost
from rlcore.in_flight import InFlight
from rlcore.runtime.base import Handle, Ref, Runtime


class Snapshots:
    """The learner's last state, which goes from the learner to every replay actor and does not come into the driver.

    So it outlives the learner's machine, unless all replay actors are on that one too.
    """

    def __init__(self, runtime: Runtime, replay: Crew) -> None:
        self._runtime = runtime
        self._replay = replay
        self.calls: InFlight[None] = InFlight(runtime, replay, 1)
        self._last: Ref | None = None
        #: The driver's own, from before anything was kept.
        self._first: Ref | None = None
        #: By place, the replay actor that was last known to have one; the newest last.
        self._holders: dict[int, Handle] = {}
        #: The learner that was last to go on from one, whether it has, and from where else it may.
        self._learner: Handle | None = None
        self._resumed: Ref | None = None
        self._sources: list[Ref] = []

    @property
    def gone(self) -> bool:
        """Whether those who had one have been lost, every one of them."""
        there = self._replay.by_place
        return bool(self._holders) and all(there.get(index) is not handle for index, handle in self._holders.items())

    def keep(self, snapshot: Ref) -> None:
        """Sends it to the replay actors; whoever has not taken the one before goes without."""
        self._last = snapshot
        for index in self.calls.idle():
            self.calls.submit(index, None, "keep", snapshot)

    def take_in(self) -> None:
        """Notes who has got it. ``RlcoreError`` where a new learner was to go on from one that is nowhere any more."""
        for kept in self.calls.arrived():
            if kept.value is not LOST:
                self._holders.pop(kept.index, None)
                self._holders[kept.index] = kept.handle
        if self._resumed is not None and self._runtime.wait([self._resumed], 1, 0.0)[0]:
            self._check(self._resumed)

    def begin_with(self, state: Ref) -> None:
        """The driver's own: what a run goes on from that was saved."""
        self._first, self._last, self._resumed = state, None, None
        self._holders.clear()
        self.calls.forget()

    def resume(self, learner: Handle) -> list[Ref]:
        """Has a new learner go on from it; from the beginning, where nobody has kept anything so far."""
        there = self._replay.by_place
        newest = reversed(self._holders.items())
        holders = [handle for index, handle in newest if there.get(index) is handle]
        self._learner, self._sources = learner, [holder.submit("kept") for holder in holders]
        if self._last is not None:
            self._sources.append(self._last)
        if self._first is not None and not self._holders:
            self._sources.append(self._first)
        return self._from_the_next() if self._sources else []

    def _from_the_next(self) -> list[Ref]:
        assert self._learner is not None, "nobody resumes"
        self._resumed = self._learner.submit("set_state", self._sources.pop(0))
        return [self._resumed]

    def _check(self, resumed: Ref) -> None:
        """What it was to go on from may have gone meanwhile with a machine."""
        self._resumed = None
        try:
            self._runtime.get(resumed)
        except ValueLost as error:
            if self._sources:
                self._from_the_next()
            elif self._holders:
                raise RlcoreError(
                    "the learner was lost, and its state with the machines of all who held it: go on from a checkpoint"
                ) from error
        except WorkerLost:
            # The learner itself, and whoever takes its place will resume anew.
            self._sources = []
