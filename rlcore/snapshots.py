"""Snapshots: what a worker goes on from that takes the place of one that was lost, kept by other workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import starmap
from typing import Any, NamedTuple

from rlcore.crew import LOST, Crew
from rlcore.in_flight import Asides
from rlcore.runtime.base import Handle, Ref, Runtime

#: How many workers keep each snapshot, at the most.
COPIES = 3


class SnapshotKeeper:
    """What workers can do that keep snapshots beside their own work."""

    _kept: Mapping[str, Any] = {}

    def keep(self, whose: str, snapshot: Any) -> None:
        """Holds a worker's state in place of the one before, which so outlives that worker's machine."""
        self._kept = {**self._kept, whose: snapshot}


class _Snapshot(NamedTuple):
    """A worker's state after so many updates."""

    state: Ref
    updates: int


class Snapshots:
    """The last state of one worker, which goes from there to ``keepers`` and does not come into the driver.

    Those are workers that are ``SnapshotKeeper`` beside whatever they do; a few of them, far apart, hold each state. So
    it outlives the worker's machine, unless all of them are on that one too: references to a value are good while
    anybody has it. Until one of them has a state the one before is the last. Who takes the place of one that had it is
    given it, from wherever it still is.
    """

    def __init__(self, runtime: Runtime, keepers: Crew, whose: str, every: int, turn: int = 0) -> None:
        """One is due after ``every`` updates. ``whose`` tells it from those of other workers in the run; of several
        take ``turn`` who keeps them."""
        self._keepers = keepers
        self._whose = whose
        self._every = every
        self._turn = turn
        self._keeping: Asides[_Snapshot] = Asides(runtime, keepers, 1)
        #: The driver's own, and the last.
        self._first: _Snapshot | None = None
        self._last: _Snapshot | None = None
        #: By place, who has the last.
        self._holders: dict[int, Handle] = {}
        #: After how many updates one was last due.
        self._due_at = 0
        #: Of how many updates it has been said that they are lost.
        self._counted = 0

    def begin_with(self, state: Ref, updates: int = 0) -> None:
        """The driver's own: what a run begins with or goes on from, after so many updates."""
        self._first = self._last = _Snapshot(state, 0)
        self._due_at = updates
        self._counted = 0
        self._holders.clear()
        self._keeping.forget()

    def due(self, updates: int) -> bool:
        """Whether one is to be made now, after so many updates: whoever asks makes it."""
        due = updates - self._due_at >= self._every or self.gone
        if due:
            self._due_at = updates
        return due

    def keep(self, state: Ref, updates: int) -> None:
        """Sends it to those who keep it; whoever has not taken the one before goes without."""
        idle, snapshot = self._keeping.idle(), _Snapshot(state, updates)
        for place in _far_apart(sorted(self._keepers.by_place), self._turn):
            if place in idle:
                self._give(place, snapshot)

    def _give(self, place: int, snapshot: _Snapshot) -> None:
        self._keeping.submit(place, snapshot, "keep", self._whose, snapshot.state)

    def take_in(self) -> None:
        """Notes who has got it."""
        # Keepers may be many, and there is seldom anything to hear of them.
        for kept in self._keeping.arrived() if self._keeping.count() else ():
            newer = self._last is None or kept.note.updates > self._last.updates
            if kept.value is not LOST and newer:
                self._last = kept.note
                self._holders.clear()
            if kept.value is not LOST and kept.note is self._last:
                self._holders[kept.index] = kept.handle
        for place, handle in list(self._holders.items()):
            if not self._is_there(place, handle) and self._keeping.room(place) and self._last is not None:
                del self._holders[place]
                self._give(place, self._last)

    def _is_there(self, place: int, handle: Handle) -> bool:
        return self._keepers.members[place].handle is handle

    @property
    def gone(self) -> bool:
        """Whether those who had the last have been lost, every one of them, and somebody could have another."""
        if self._last is self._first or self._keeping.count() or any(starmap(self._is_there, self._holders.items())):
            return False
        return bool(self._keeping.idle())

    @property
    def last(self) -> Ref | None:
        """The last state; None where there is none."""
        return None if self._last is None else self._last.state

    def lost(self, updates: int) -> int:
        """Of so many updates, how many are in no state and have not been counted here before."""
        known = max(self._counted, 0 if self._last is None else self._last.updates)
        self._counted = updates
        return updates - known


def _far_apart(places: Sequence[int], turn: int) -> list[int]:
    """Some of them, whose neighbours are likely to be on the same machine."""
    count = min(COPIES, len(places))
    return [places[(turn + i * len(places) // count) % len(places)] for i in range(count)]
