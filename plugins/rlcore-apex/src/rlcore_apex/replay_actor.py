"""ReplayActor: a share of the replay memory, in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import BATCH_INDEXES, MultiAgentBatch, SampleBatch
from rlcore.snapshots import SnapshotKeeper
from rlcore_replay import PrioritizedConfig, ReplayBuffer


class Drawn(NamedTuple):
    """Of which policy a minibatch is, and how many items had been added to its buffer by then."""

    policy_id: str
    added: int


class NewPriorities(NamedTuple):
    """What a learner has to say of what it was given: temporal differences ``td_error [n]`` at ``indexes [n]``.

    None where nothing changes, because the update was skipped.
    """

    drawn: Drawn
    indexes: NDArray[np.int64]
    td_error: NDArray[np.float32] | None


class ReplayActor(SnapshotKeeper):
    """Prioritised buffers, one a policy, of ``capacity`` transitions each."""

    def __init__(
        self, policy_ids: Sequence[str], capacity: int, prioritized: PrioritizedConfig, seed: np.random.SeedSequence
    ) -> None:
        self._buffers = {
            policy_id: ReplayBuffer(capacity, alpha=prioritized.alpha, epsilon=prioritized.epsilon)
            for policy_id in policy_ids
        }
        self._rng = np.random.default_rng(seed)

    def add(self, batch: MultiAgentBatch) -> dict[str, int]:
        """Stores the samples of every policy; how many there are of each by then."""
        for policy_id, own in batch.items():
            if policy_id in self._buffers:
                self._buffers[policy_id].add(own)
        return self.sizes()

    def sizes(self) -> dict[str, int]:
        """How many transitions there are by policy."""
        return {policy_id: len(buffer) for policy_id, buffer in self._buffers.items()}

    def draw(self, policy_id: str, rows: int, beta: float) -> tuple[Drawn, SampleBatch]:
        """So many transitions of a policy in proportion to their priorities."""
        buffer = self._buffers[policy_id]
        return Drawn(policy_id, buffer.added), buffer.sample(rows, self._rng, beta)

    def take(self, new: NewPriorities) -> None:
        """New priorities of what was drawn here, but for items that have given way to others since."""
        if new.td_error is None:
            return
        buffer = self._buffers[new.drawn.policy_id]
        there = buffer.still_there(new.indexes, new.drawn.added)
        buffer.update_priorities(new.indexes[there], new.td_error[there])

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on exactly."""
        return {
            "rng": self._rng.bit_generator.state,
            "buffers": {policy_id: buffer.get_state() for policy_id, buffer in self._buffers.items()},
        }

    def set_state(self, state: dict[str, Any]) -> dict[str, int]:
        """Goes on from ``get_state``'s tree; how many transitions there are by policy."""
        self._rng.bit_generator.state = state["rng"]
        for policy_id, own in state["buffers"].items():
            self._buffers[policy_id].set_state(own)
        return self.sizes()


def new_priorities(drawn: Drawn, minibatch: SampleBatch, td_error: NDArray[np.float32] | None) -> NewPriorities:
    """Those of a minibatch that ``draw`` gave."""
    return NewPriorities(drawn, minibatch[BATCH_INDEXES], td_error)
