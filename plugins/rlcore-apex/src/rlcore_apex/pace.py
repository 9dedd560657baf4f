"""Who may go on: how much has been sampled, drawn and learnt from, who is ahead of whom, and whose turn it is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rlcore.policy_graph import Progress
from rlcore_apex.config import ApexConfig
from rlcore_replay import LearningPace


class ApexPace:
    """The account of one run. With ``learnt_per_sampled`` neither side gets ahead by more than a learner's queue.

    Rows count as learnt from when they are drawn, so that no more is under way than may be learnt; the policy with the
    fewest is next. What was lost on the way to the learner, or with it, is drawn anew.
    """

    def __init__(self, policy_ids: Sequence[str], config: ApexConfig) -> None:
        self._config = config
        self._account = LearningPace(
            policy_ids, config.learning_starts, config.learnt_per_sampled, config.minibatch_size
        )
        #: Rows that the learner knows of having learnt from, by policy.
        self._learnt = dict.fromkeys(policy_ids, 0)

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

    def due(self, held: Collection[str]) -> str | None:
        """Which policy a minibatch may be drawn of, where something of those ``held`` may be."""
        rows = self._account.learnt
        able = [policy_id for policy_id in rows if policy_id in held and self._account.due(policy_id)]
        return min(able, key=rows.__getitem__, default=None)

    def learner_is_behind(self, held: Collection[str]) -> bool:
        """Whether more is due than the learner has room for, of policies of which something is ``held``."""
        room = (self._config.learner_queue + 1) * self._config.minibatch_size
        return any(self._account.owed(policy_id) > room for policy_id in self._account.learnt if policy_id in held)

    def drawn(self, policy_id: str) -> None:
        """A minibatch was asked for."""
        self._account.learnt_from(policy_id, self._config.minibatch_size)

    def undrawn(self, policy_id: str) -> None:
        """It did not come, or was lost with the learner."""
        self._take_back(policy_id, self._config.minibatch_size)

    def learnt(self, policy_id: str) -> None:
        """The learner has learnt from a minibatch."""
        self._learnt[policy_id] += self._config.minibatch_size

    def learner_is_at(self, progress: Mapping[str, Progress]) -> None:
        """Another learner takes over that knows of so much: what was learnt since is to be learnt once more."""
        for policy_id, rows in self._learnt.items():
            known = progress[policy_id].learnt_rows if policy_id in progress else 0
            self._take_back(policy_id, max(0, rows - known))
            self._learnt[policy_id] = known

    def _take_back(self, policy_id: str, rows: int) -> None:
        # After a refill some of it is not in the account any more.
        self._account.learnt_from(policy_id, -min(rows, self._account.learnt[policy_id]))

    def get_state(self, under_way: Sequence[str]) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on: minibatches that are ``under_way``, by policy, are drawn anew."""
        account = self._account.get_state()
        account["learnt"] = {
            policy_id: max(0, rows - under_way.count(policy_id) * self._config.minibatch_size)
            for policy_id, rows in account["learnt"].items()
        }
        return {"account": account}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from ``get_state``'s tree."""
        self._account.set_state(state["account"])


class Turns:
    """Takes turns among places in proportion to their shares, smoothly: after any number of turns each is less than
    one turn away from what is due to it, as long as the same are able.

    Whoever is not able to take a turn is passed over, and not made up to later.
    """

    def __init__(self, size: int) -> None:
        self._credit = [0] * size

    def next(self, shares: Mapping[int, int]) -> int:
        """One of the places that ``shares`` has, all of them above 0."""
        total = sum(shares.values())
        for place, share in shares.items():
            self._credit[place] += share
        place = max(shares, key=self._credit.__getitem__)
        self._credit[place] -= total
        return place

    def begin_anew(self, place: int) -> None:
        """Somebody else has that place."""
        self._credit[place] = 0
