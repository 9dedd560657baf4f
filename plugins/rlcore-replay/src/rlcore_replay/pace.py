"""How much is learnt: a stated number of rows for every environment step that was sampled, over the whole run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

#: What the product of a ratio and a count may be off by.
_ROUNDING = 1e-9


class LearningPace:
    """Says for each policy when its next minibatch is due.

    ``learnt_per_sampled`` rows are learnt from for each environment step sampled after the first ``learning_starts``.
    The account is kept from totals, so that it comes out even whatever the samples are cut into.
    """

    def __init__(
        self, policy_ids: Iterable[str], learning_starts: int, learnt_per_sampled: float, minibatch_size: int
    ) -> None:
        self._starts = learning_starts
        self._ratio = learnt_per_sampled
        self._minibatch_size = minibatch_size
        #: Environment steps sampled.
        self.env_steps = 0
        #: Rows learnt from, by policy.
        self.learnt = dict.fromkeys(policy_ids, 0)

    def sampled(self, env_steps: int) -> None:
        """So many environment steps more."""
        self.env_steps += env_steps

    def is_due(self, policy_id: str) -> bool:
        """Whether the policy is a whole minibatch behind."""
        allowed = max(0, self.env_steps - self._starts) * self._ratio * (1.0 + _ROUNDING)
        return self.learnt[policy_id] + self._minibatch_size <= allowed

    def learnt_from(self, policy_id: str, rows: int) -> None:
        """So many rows more."""
        self.learnt[policy_id] += rows

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on."""
        return {"env_steps": self.env_steps, "learnt": dict(self.learnt)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree."""
        self.env_steps = int(state["env_steps"])
        self.learnt |= {policy_id: int(rows) for policy_id, rows in state["learnt"].items()}
