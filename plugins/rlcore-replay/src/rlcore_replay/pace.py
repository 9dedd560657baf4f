"""How much is learnt: a stated number of rows for every environment step that was sampled, over the whole run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

#: What the product of a ratio and a count may be off by.
_ROUNDING = 1e-9


class LearningPace:
    """Says for each policy how many minibatches are due.

    ``learnt_per_sampled`` rows are learnt from for each environment step sampled after the first ``learning_starts``;
    where it is None, one minibatch after the other from there on. The account is kept from totals, so that it comes out
    even whatever the samples are cut into.
    """

    def __init__(
        self, policy_ids: Iterable[str], learning_starts: int, learnt_per_sampled: float | None, minibatch_size: int
    ) -> None:
        self._starts = learning_starts
        self._ratio = learnt_per_sampled
        self._minibatch_size = minibatch_size
        #: Environment steps sampled, and how many there were when the account was opened.
        self.env_steps = self._opened = 0
        #: Rows learnt from since then, by policy.
        self.learnt = dict.fromkeys(policy_ids, 0)

    def sampled(self, env_steps: int) -> None:
        """So many environment steps more."""
        self.env_steps += env_steps

    def due(self, policy_id: str) -> int:
        """How many whole minibatches the policy is behind; where nothing states how many, one from the start on."""
        if self._ratio is None:
            return int(self.env_steps - self._opened >= self._starts)
        behind = self._stated() * (1.0 + _ROUNDING) - self.learnt[policy_id]
        return max(0, int(behind // self._minibatch_size))

    def owed(self, policy_id: str) -> float:
        """By how many rows the policy is behind what is to be learnt from; 0 where that is not stated."""
        return 0.0 if self._ratio is None else self._stated() - self.learnt[policy_id]

    def _stated(self) -> float:
        """How many rows are to be learnt from by now."""
        return max(0, self.env_steps - self._opened - self._starts) * (self._ratio or 0.0)

    def learnt_from(self, policy_id: str, rows: int) -> None:
        """So many rows more."""
        self.learnt[policy_id] += rows

    def begin_again(self) -> None:
        """Nothing that was sampled before is there any more: the next ``learning_starts`` steps come first."""
        self._opened = self.env_steps
        self.learnt = dict.fromkeys(self.learnt, 0)

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on."""
        return {"env_steps": self.env_steps, "opened": self._opened, "learnt": dict(self.learnt)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree."""
        self.env_steps, self._opened = int(state["env_steps"]), int(state["opened"])
        self.learnt |= {policy_id: int(rows) for policy_id, rows in state["learnt"].items()}
