"""ShardSnapshots: what shards go on from that take the places of others, held by evaluators."""

from __future__ import annotations

from collections.abc import Sequence

from rlcore.evaluator_set import EvaluatorSet
from rlcore.runtime.base import Handle, Ref


class ShardSnapshots:
    """The last snapshot of every shard, which goes from there to an evaluator and does not come into the driver.

    So it outlives the shard's machine, unless that evaluator is on it too. An evaluator that takes the place of one
    that held any is given them, from wherever they still are.
    """

    def __init__(self, evaluators: EvaluatorSet, owner: str) -> None:
        """``owner`` is whose shards they are, in a run."""
        self._evaluators = evaluators
        self._owner = owner
        self.begin_with([])
        evaluators.bring_up_with(self._given_to)

    def begin_with(self, states: Sequence[Ref]) -> None:
        """The driver's own, as nobody has made a snapshot so far."""
        self._last = list(states)
        #: Which evaluator holds them, by shard, where one does; of how many updates they are.
        self._holders: dict[int, int] = {}
        self._updates = [0] * len(self._last)

    def keep(self, shard: int, snapshot: Ref, updates: int) -> None:
        """One of a shard that has come, after so many updates."""
        self._last[shard], self._updates[shard] = snapshot, updates
        there = list(self._evaluators.by_place)
        if there:
            self._holders[shard] = there[shard % len(there)]
            self._evaluators.hold(self._holders[shard], self._key(shard), snapshot)

    def resume(self, shard: int, handle: Handle, updates: int) -> tuple[Ref, int]:
        """Has a shard go on from its last one: a reference that says when it has, and how many updates are lost of so
        many that were made."""
        lost, self._updates[shard] = updates - self._updates[shard], updates
        return handle.submit("set_state", self._last[shard]), lost

    @property
    def last(self) -> Sequence[Ref]:
        """References to them, by shard."""
        return self._last

    def _given_to(self, handle: Handle, index: int) -> list[Ref]:
        own = [shard for shard, holder in self._holders.items() if holder == index]
        return [handle.submit("hold", self._key(shard), self._last[shard]) for shard in own]

    def _key(self, shard: int) -> str:
        return f"parameter shard {shard} of {self._owner}"
