"""Learnt: what came of updates, counted as they are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rlcore.policy_optimizer import MeanStats, StepResult


@dataclass
class Learnt:
    """``rows`` as often as they were learnt from, ``updates`` made and ``skipped``, and each policy's statistics, in
    which updates weigh as much as they have rows."""

    rows: int = 0
    updates: int = 0
    skipped: int = 0
    stats: MeanStats = field(default_factory=MeanStats)

    def note(self, policy_id: str, stats: Mapping[str, float], rows: int, skipped: bool) -> None:
        """One update of a policy, from so many ``rows``."""
        self.stats.add(policy_id, stats, rows)
        self.rows += rows
        self.updates += not skipped
        self.skipped += skipped

    def result(self, env_steps: int, timers: Mapping[str, float], dropped_rows: int = 0) -> StepResult:
        """All of it as what one step came to, in which so many environment steps were sampled."""
        return StepResult(
            env_steps, self.rows, self.updates, self.skipped, dropped_rows, self.stats.mean(), timers
        )
