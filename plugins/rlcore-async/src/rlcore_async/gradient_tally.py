"""What happened in one step of an optimizer that applies gradients as they come, added up as it comes in."""

from __future__ import annotations

from collections.abc import Mapping

from rlcore.policy_optimizer import MeanStats, StepResult
from rlcore.sample_stream import Sample
from rlcore_async.gradient_products import GradientNote


class GradientTally:
    """Counts of one step. Beside each policy's own statistics stand how stale the weights were that sampled, in
    versions, how many tasks came to nothing, with their evaluators or because they were out of date, and how many
    updates were lost with shards, each counted for itself."""

    def __init__(self, rows_before: int = 0) -> None:
        self._stats = MeanStats()
        self.samples = 0
        self._env_steps = 0
        self._staleness: list[int] = []
        self._learnt = 0
        self._updates = 0
        self._skipped = 0
        self._dropped = 0
        self._tasks = 0
        self.lost_updates = 0
        self.learn_s = 0.0
        #: Of the last sample: what one counts for that never came.
        self.rows = rows_before

    def sampled(self, sample: Sample, version: int) -> int:
        """A sample has come when ``version`` was the newest: by how many versions it is out of date."""
        self.samples += 1
        self._env_steps += sample.info.env_steps
        self._staleness.append(version - sample.info.version)
        self.rows = sum(note.rows for note in sample.note.values())
        return self._staleness[-1]

    def learnt(self, notes: Mapping[str, GradientNote]) -> None:
        """Its gradients were applied, but for those that are of no use."""
        for policy_id, note in notes.items():
            self._learnt += note.rows
            self._updates += not note.skipped
            self._skipped += note.skipped
            self._stats.add(policy_id, note.stats)

    def dropped(self, tasks: int) -> None:
        """So many tasks came to nothing, with as many rows as the last one had that came."""
        self._tasks += tasks
        self._dropped += tasks * self.rows

    def result(self, seconds: float, policies: tuple[str, ...]) -> StepResult:
        """All of it, of a step of so many ``seconds``; ``sample_s`` is what was not spent on learning here."""
        more = {
            "staleness_mean": sum(self._staleness) / max(1, len(self._staleness)),
            "staleness_max": float(max(self._staleness, default=0)),
            "lost_tasks": float(self._tasks),
            "lost_updates": float(self.lost_updates),
        }
        means = self._stats.mean()
        timers = {"sample_s": max(0.0, seconds - self.learn_s), "learn_s": self.learn_s, "sync_s": 0.0}
        return StepResult(
            self._env_steps,
            self._learnt,
            self._updates,
            self._skipped,
            self._dropped,
            {policy_id: {**means.get(policy_id, {}), **more} for policy_id in policies},
            timers,
        )
