"""Who may go on: how much has been sampled, drawn and learnt from, and who is ahead of whom."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rlcore_apex.config import ApexConfig

#: What the learner is asked for beside updates.
WEIGHTS, SNAPSHOT = "weights", "snapshot"


class ApexPace:
    """The account of one run. With ``learnt_per_sampled`` neither side gets ahead by more than a learner's queue.

    It is opened after ``learning_starts`` environment steps. Rows count as learnt from when they are drawn, so that no
    more is under way than may be learnt.
    """

    def __init__(self, policy_ids: Sequence[str], config: ApexConfig) -> None:
        self._config = config
        #: Environment steps of the samples that were sent to replay, and how many there were when it began.
        self.env_steps = self._began = 0
        #: Rows drawn since then, by policy: the one with the fewest is next.
        self.rows = dict.fromkeys(policy_ids, 0)
        self._updates = 0
        #: After how many updates the learner was last asked for what.
        self._asked_at = {WEIGHTS: 0, SNAPSHOT: 0}

    def sampled(self, env_steps: int) -> None:
        """So many environment steps more are in replay."""
        self.env_steps += env_steps

    def refill(self) -> None:
        """What was stored is gone: as many steps as at the beginning are sampled before it learns again."""
        self._began = self.env_steps
        self.rows = dict.fromkeys(self.rows, 0)

    def due(self, held: Mapping[str, int]) -> str | None:
        """Which policy a minibatch may be drawn of, from a memory that holds so many transitions of each."""
        if self.env_steps - self._began < self._config.learning_starts:
            return None
        able = [policy_id for policy_id in self.rows if held.get(policy_id, 0) and self._owed(policy_id) >= 0.0]
        return min(able, key=self.rows.__getitem__, default=None)

    def _owed(self, policy_id: str) -> float:
        """How many rows of the policy are due, less the minibatch that would be next."""
        ratio = self._config.learnt_per_sampled
        if ratio is None:
            return 0.0
        allowed = (self.env_steps - self._began - self._config.learning_starts) * ratio
        return allowed - self.rows[policy_id] - self._config.minibatch_size

    def learner_is_behind(self, held: Collection[str]) -> bool:
        """Whether more is due than the learner has room for, of policies of which something is ``held``."""
        queue = self._config.learner_queue * self._config.minibatch_size
        return any(self._owed(policy_id) > queue for policy_id in held if policy_id in self.rows)

    def drawn(self, policy_id: str) -> None:
        """A minibatch was asked for."""
        self.rows[policy_id] += self._config.minibatch_size

    def undrawn(self, policy_id: str) -> None:
        """It did not come."""
        self.rows[policy_id] = max(0, self.rows[policy_id] - self._config.minibatch_size)

    def learnt(self) -> None:
        """The learner has made an update."""
        self._updates += 1

    def asked(self, what: str) -> None:
        """The learner was asked for weights, or for a snapshot."""
        self._asked_at[what] = self._updates

    @property
    def has_new_weights(self) -> bool:
        """Whether the learner has made updates since it was last asked for weights."""
        return self._updates > self._asked_at[WEIGHTS]

    @property
    def snapshot_is_due(self) -> bool:
        """Whether enough updates have been made since the learner's state was last kept."""
        return self._updates - self._asked_at[SNAPSHOT] >= self._config.snapshot_every

    def get_state(self, under_way: Sequence[str]) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on: minibatches that are ``under_way``, by policy, are drawn anew."""
        rows = {
            policy_id: max(0, rows - under_way.count(policy_id) * self._config.minibatch_size)
            for policy_id, rows in self.rows.items()
        }
        return {"env_steps": self.env_steps, "began": self._began, "rows": rows, "updates": self._updates}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from ``get_state``'s tree; weights are sent anew."""
        self.env_steps, self._began = int(state["env_steps"]), int(state["began"])
        self.rows |= {policy_id: int(rows) for policy_id, rows in state["rows"].items()}
        self._updates = int(state["updates"])
        self._asked_at = {WEIGHTS: -1, SNAPSHOT: self._updates}
