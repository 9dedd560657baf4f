"""What happened in one step of an optimizer that applies gradients as they come, added up as it comes in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from rlcore.learner_tally import StepTally
from rlcore.learnt import Learnt
from rlcore.sample_stream import Sample
from rlcore_async.gradient_products import GradientNote


class GradientTally(StepTally):
    """Counts of one step. Beside what every optimizer counts stand how many tasks came to nothing, with their
    evaluators or because they were out of date, and how many updates were lost with shards, each counted for itself."""

    def __init__(self, policies: Sequence[str], rows_before: int = 0) -> None:
        super().__init__(policies)
        self._tasks = 0
        self.lost_updates = 0
        #: Of the last sample: what one counts for that never came.
        self.rows = rows_before

    def following(self) -> Self:
        return type(self)(self._policies, self.rows)

    def sampled(self, sample: Sample, staleness: int) -> None:
        """A sample has come that is out of date by so many versions."""
        self.took(1, sample.info.env_steps)
        self.stale([staleness])
        self.rows = sum(note.rows for note in sample.note.values())

    def learnt(self, notes: Mapping[str, GradientNote]) -> None:
        """Its gradients were applied, but for those that are of no use."""
        for policy_id, note in notes.items():
            learnt = Learnt()
            learnt.note(policy_id, note.stats, note.rows, note.skipped)
            self.updated(learnt)

    def came_to_nothing(self, tasks: int) -> None:
        """So many tasks, with as many rows as the last one had that came."""
        self._tasks += tasks
        self.dropped(tasks * self.rows)

    def lost(self, samples: int) -> None:
        super().lost(samples)
        self.came_to_nothing(samples)

    def more(self) -> dict[str, float]:
        return {**super().more(), "lost_tasks": float(self._tasks), "lost_updates": float(self.lost_updates)}
