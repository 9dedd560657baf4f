"""ShardSnapshots: what shards go on from that take the places of others, held by evaluators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rlcore.errors import WorkerLost
from rlcore.evaluator_set import EvaluatorSet
from rlcore.runtime.base import Handle, Ref, Runtime


class _Snapshot(NamedTuple):
    """A shard's state after so many updates, and what says that an evaluator holds it; None where nobody needs to."""

    state: Ref
    updates: int
    held: Ref | None = None


class ShardSnapshots:
    """The last snapshot of every shard, which goes from there to an evaluator and does not come into the driver.

    So it outlives the shard's machine, unless that evaluator is on it too. Until it is held the one before is the last.
    An evaluator that takes the place of one that held any is given them, from wherever they still are.
    """

    def __init__(self, runtime: Runtime, evaluators: EvaluatorSet, owner: str) -> None:
        """``owner`` is whose shards they are, in a run."""
        self._runtime = runtime
        self._evaluators = evaluators
        self._owner = owner
        self.begin_with([])
        evaluators.bring_up_with(self._given_to)

    def begin_with(self, states: Sequence[Ref]) -> None:
        """The driver's own, as nobody has made a snapshot so far."""
        self._last = [_Snapshot(state, 0) for state in states]
        self._coming: list[list[_Snapshot]] = [[] for _ in states]
        #: Which evaluator holds them, by shard, where one does.
        self._holders: dict[int, int] = {}
        #: Of how many updates each shard has been told that they are lost or kept.
        self._settled = [0] * len(states)

    def keep(self, shard: int, snapshot: Ref, updates: int) -> None:
        """One of a shard that has come, after so many updates."""
        there = list(self._evaluators.by_place.items())
        if not there:
            return
        self._holders[shard], handle = there[shard % len(there)]
        held = handle.submit("hold", self._key(shard), snapshot)
        self._evaluators.expect([(handle, held)])
        self._coming[shard].append(_Snapshot(snapshot, updates, held))

    def resume(self, shard: int, handle: Handle, updates: int) -> tuple[Ref, int]:
        """Has a shard go on from its last one: a reference that says when it has, and how many updates are lost of so
        many that were made."""
        self.take_in()
        self._coming[shard].clear()
        last = self._last[shard]
        lost = updates - max(last.updates, self._settled[shard])
        self._settled[shard] = updates
        return handle.submit("set_state", last.state), lost

    @property
    def last(self) -> list[Ref]:
        """References to them, by shard."""
        return [snapshot.state for snapshot in self._last]

    def take_in(self) -> None:
        """Notes which of those that were sent to evaluators are there."""
        for shard, coming in enumerate(self._coming):
            while coming and self._runtime.wait([coming[0].held], 1, 0.0)[0]:
                snapshot = coming.pop(0)
                try:
                    self._runtime.get(snapshot.held)
                except WorkerLost:
                    # With the evaluator, or the shard itself: the one before is still the last.
                    continue
                self._last[shard] = snapshot

    def _given_to(self, handle: Handle, index: int) -> list[Ref]:
        given = []
        for shard in [shard for shard, holder in self._holders.items() if holder == index]:
            newest = [self._last[shard], *self._coming[shard]][-1]
            given.append(handle.submit("hold", self._key(shard), newest.state))
            self._coming[shard] = [newest._replace(held=given[-1])]
        return given

    def _key(self, shard: int) -> str:
        return f"parameter shard {shard} of {self._owner}"
