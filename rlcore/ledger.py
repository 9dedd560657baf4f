"""Ledger: how far each policy of an optimizer is, and how many of its updates were skipped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from rlcore.errors import NonFiniteError
from rlcore.policy_graph import Progress

#: So many updates of one policy in a row may be skipped for NaN or infinity before the run ends with an error.
MAX_SKIPPED = 20


class Ledger:
    """By policy: environment steps sampled, rows learnt from, updates made and skipped."""

    def __init__(self, policy_ids: Iterable[str], bound: int = MAX_SKIPPED) -> None:
        self._bound = bound
        self._progress = {policy_id: Progress() for policy_id in policy_ids}
        self._in_a_row = dict.fromkeys(self._progress, 0)
        self._skipped = dict.fromkeys(self._progress, 0)

    @property
    def progress(self) -> dict[str, Progress]:
        """How far each policy is."""
        return dict(self._progress)

    @property
    def skipped(self) -> int:
        """How many updates were skipped in all."""
        return sum(self._skipped.values())

    def advance(self, env_steps: int) -> None:
        """So many environment steps more have been sampled."""
        for policy_id, one in self._progress.items():
            self._progress[policy_id] = replace(one, env_steps=one.env_steps + env_steps)

    def note(self, policy_id: str, rows: int, stats: Mapping[str, float], skipped: bool) -> Progress:
        """One update from ``rows`` rows. Raises ``NonFiniteError`` after too many skipped ones in a row."""
        before = self._progress[policy_id]
        progress = Progress(before.env_steps, before.learnt_rows + rows, before.updates + (not skipped), stats)
        self._progress[policy_id] = progress
        self._skipped[policy_id] += skipped
        self._in_a_row[policy_id] = self._in_a_row[policy_id] + 1 if skipped else 0
        if self._in_a_row[policy_id] >= self._bound:
            raise NonFiniteError(
                f"policy '{policy_id}': the loss or a gradient was NaN or infinite in {self._bound} updates in a row; "
                "lower policy.learning_rate, set policy.max_grad_norm, or look at the rewards and observations"
            )
        return progress

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on exactly."""
        return {
            policy_id: {
                "env_steps": one.env_steps,
                "learnt_rows": one.learnt_rows,
                "updates": one.updates,
                "stats": dict(one.stats),
                "skipped": self._skipped[policy_id],
                "in_a_row": self._in_a_row[policy_id],
            }
            for policy_id, one in self._progress.items()
        }

    def set_state(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """Goes on from ``get_state``'s tree."""
        for policy_id, tree in state.items():
            self._progress[policy_id] = Progress(
                int(tree["env_steps"]), int(tree["learnt_rows"]), int(tree["updates"]), dict(tree["stats"])
            )
            self._skipped[policy_id] = int(tree["skipped"])
            self._in_a_row[policy_id] = int(tree["in_a_row"])
