"""Snapshots: what a learner goes on from that takes the place of one that was lost, kept by other workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlcore.crew import LOST, Crew
from rlcore.in_flight import Asides
from rlcore.runtime.base import Handle, Ref, Runtime

#: How many workers keep each snapshot, at the most.
COPIES = 3


class SnapshotKeeper:
    """What workers can do that keep snapshots beside their own work."""

    _snapshot: dict[str, Any] | None = None

    def keep(self, snapshot: dict[str, Any]) -> None:
        """Holds a learner's state, which so outlives the learner's machine."""
        self._snapshot = snapshot

    def kept(self) -> tuple[bool, dict[str, Any] | None]:
        """Whether it holds one, and that: a driver hands it on by reference."""
        return self._snapshot is not None, self._snapshot


class Snapshots:
    """The learner's last state, which goes from the learner to ``keepers`` and does not come into the driver.

    Those are workers that are ``SnapshotKeeper`` beside whatever they do; a few of them, far apart, hold each state. So
    it outlives the learner's machine, unless all of them are on that one too.
    """

    def __init__(self, runtime: Runtime, keepers: Crew) -> None:
        self._keepers = keepers
        self._keeping: Asides[None] = Asides(runtime, keepers, 1)
        self._asking: Asides[None] = Asides(runtime, keepers, 1)
        self._last: Ref | None = None
        #: The driver's own, from before anything was kept.
        self._first: Ref | None = None
        #: By place, the worker that was last known to have one; the newest last.
        self._holders: dict[int, Handle] = {}
        #: What a new learner may go on from: what has come, who else may be asked, and then what the driver knows of.
        self._found: list[Ref] = []
        self._places: list[int] = []
        self._known: list[Ref] = []

    @property
    def any_kept(self) -> bool:
        """Whether anybody has ever had one."""
        return bool(self._holders)

    @property
    def gone(self) -> bool:
        """Whether those who had one have been lost, every one of them."""
        return self.any_kept and not self._there()

    @property
    def to_renew(self) -> bool:
        """Whether it is gone, and somebody could have another."""
        return self.gone and bool(self._keeping.idle())

    def _there(self) -> list[int]:
        """The places of those who have one, the newest first."""
        there = self._keepers.by_place
        return [index for index, handle in reversed(self._holders.items()) if there.get(index) is handle]

    @property
    def awaited(self) -> list[Asides[None]]:
        """What to wait for; nothing, most of the time."""
        return [calls for calls in (self._keeping, self._asking) if calls.count()]

    def keep(self, snapshot: Ref) -> None:
        """Sends it to those who keep it; whoever has not taken the one before goes without."""
        self._last = snapshot
        idle = self._keeping.idle()
        for index in _far_apart(sorted(self._keepers.by_place)):
            if index in idle:
                self._keeping.submit(index, None, "keep", snapshot)

    def take_in(self) -> None:
        """Notes who has got it, and what came of asking for it."""
        # Keepers may be many, and there is seldom anything to hear of them.
        for kept in self._keeping.arrived() if self._keeping.count() else ():
            if kept.value is not LOST:
                self._holders.pop(kept.index, None)
                self._holders[kept.index] = kept.handle
        for asked in self._asking.arrived() if self._asking.count() else ():
            if asked.value is True:
                self._found.append(asked.others[0])

    def begin_with(self, state: Ref) -> None:
        """The driver's own: what a run goes on from that was saved."""
        self._first, self._last = state, None
        self._holders.clear()
        for calls in self.awaited:
            calls.forget()

    # -- for a new learner

    def look_for(self) -> None:
        """A new learner is to go on from it: ``source`` gives one after the other, the best first."""
        self._asking.forget()
        self._found.clear()
        self._places = self._there()
        self._known = [] if self._last is None else [self._last]
        if self._first is not None and not self.any_kept:
            self._known.append(self._first)

    @property
    def looking(self) -> bool:
        """Whether somebody is being asked for it, and has not answered."""
        there = self._there()
        while self._places and not self._found and not self._asking.count():
            # It is asked of one after the other: what is handed on is there, and nobody else waits for who is lost.
            place = self._places.pop(0)
            if place in there:
                self._asking.submit(place, None, "kept", returns=2)
        return not self._found and self._asking.count() > 0

    def source(self) -> Ref | None:
        """The next best; None where there are no more."""
        for found in (self._found, self._known):
            if found:
                return found.pop(0)
        return None


def _far_apart(places: Sequence[int]) -> list[int]:
    """Some of them, whose neighbours are likely to be on the same machine."""
    count = min(COPIES, len(places))
    return [places[i * len(places) // count] for i in range(count)]
