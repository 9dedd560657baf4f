"""Who may go on: how much has been sampled, drawn and learnt from, and who is ahead of whom."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Any

from rlcore_apex.config import ApexConfig
from rlcore_replay import LearningPace


class Request(Enum):
    """What the learner is asked for beside updates, by the method that gives it."""

    WEIGHTS = "acting_weights"
    SNAPSHOT = "snapshot"


class ApexPace:
    """The account of one run. With ``learnt_per_sampled`` neither side gets ahead by more than a learner's queue.

    Rows count as learnt from when they are drawn, so that no more is under way than may be learnt; the policy with the
    fewest is next.
    """

    def __init__(self, policy_ids: Sequence[str], config: ApexConfig) -> None:
        self._config = config
        self._account = LearningPace(
            policy_ids, config.learning_starts, config.learnt_per_sampled, config.minibatch_size
        )
        self._updates = 0
        #: After how many updates the learner was last asked for what.
        self._asked_at = {Request.WEIGHTS: 0, Request.SNAPSHOT: 0}

    @property
    def env_steps(self) -> int:
        """Environment steps of the samples that were sent to replay."""
        return self._account.env_steps

    def sampled(self, env_steps: int) -> None:
        """So many environment steps more are in replay."""
        self._account.sampled(env_steps)

    def refill(self) -> None:
        """What was stored is gone: as many steps as at the beginning are sampled before it learns again."""
        self._account.begin_again()

    def due(self, held: Mapping[str, int]) -> str | None:
        """Which policy a minibatch may be drawn of, from a memory that holds so many transitions of each."""
        rows = self._account.learnt
        able = [policy_id for policy_id in rows if held.get(policy_id, 0) and self._account.due(policy_id)]
        return min(able, key=rows.__getitem__, default=None)

    def learner_is_behind(self, held: Collection[str]) -> bool:
        """Whether more is due than the learner has room for, of policies of which something is ``held``."""
        room = (self._config.learner_queue + 1) * self._config.minibatch_size
        return any(self._account.owed(policy_id) > room for policy_id in self._account.learnt if policy_id in held)

    def drawn(self, policy_id: str) -> None:
        """A minibatch was asked for."""
        self._account.learnt_from(policy_id, self._config.minibatch_size)

    def undrawn(self, policy_id: str) -> None:
        """It did not come."""
        # After a refill it is not in the account any more.
        self._account.learnt_from(policy_id, -min(self._config.minibatch_size, self._account.learnt[policy_id]))

    def learnt(self) -> None:
        """The learner has made an update."""
        self._updates += 1

    def asked(self, request: Request) -> None:
        """The learner was asked for it."""
        self._asked_at[request] = self._updates

    def weights_lost(self) -> None:
        """Those that were sent last may be nowhere any more: they are asked for anew."""
        self._asked_at[Request.WEIGHTS] = -1

    @property
    def has_new_weights(self) -> bool:
        """Whether the learner has made updates since it was last asked for weights."""
        return self._updates > self._asked_at[Request.WEIGHTS]

    @property
    def snapshot_is_due(self) -> bool:
        """Whether enough updates have been made since the learner's state was last kept."""
        return self._updates - self._asked_at[Request.SNAPSHOT] >= self._config.snapshot_every

    def get_state(self, under_way: Sequence[str]) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on: minibatches that are ``under_way``, by policy, are drawn anew."""
        account = self._account.get_state()
        account["learnt"] = {
            policy_id: max(0, rows - under_way.count(policy_id) * self._config.minibatch_size)
            for policy_id, rows in account["learnt"].items()
        }
        return {"account": account, "updates": self._updates}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from ``get_state``'s tree; weights are sent anew."""
        self._account.set_state(state["account"])
        self._updates = int(state["updates"])
        self._asked_at = {Request.WEIGHTS: -1, Request.SNAPSHOT: self._updates}
