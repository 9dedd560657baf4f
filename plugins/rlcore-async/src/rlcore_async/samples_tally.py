"""What happened in one step of ``async_samples``, added up as it comes in."""

from __future__ import annotations

from collections.abc import Sequence

from rlcore.policy_optimizer import MeanStats, StepResult
from rlcore_async.batches_learner import Done


class SamplesTally:
    """Counts of one step. Beside each policy's own statistics stand how stale the samples were, in versions of the
    weights; beside the usual timers the seconds that lie between the updates of the learner."""

    def __init__(self) -> None:
        self._stats = MeanStats()
        self._staleness: list[int] = []
        #: New samples that were handed to the learner, or dropped before.
        self.samples = 0
        self._env_steps = 0
        self._rows = 0
        self._updates = 0
        self._skipped = 0
        self._dropped = 0
        self._learn_s = 0.0
        self._wait_s = 0.0

    def took(self, samples: int, env_steps: int) -> None:
        """So many new samples were handed to the learner, or dropped before."""
        self.samples += samples
        self._env_steps += env_steps

    def learnt(self, done: Done, staleness: Sequence[int]) -> None:
        """A batch, of new samples by weights that so many versions had followed."""
        learnt = done.learnt
        for policy_id, stats in learnt.stats.items():
            self._stats.add(policy_id, stats, learnt.updates + learnt.skipped)
        self._staleness += staleness
        self._rows += learnt.rows
        self._updates += learnt.updates
        self._skipped += learnt.skipped
        self._learn_s += done.learn_s
        self._wait_s += done.wait_s

    def dropped(self, rows: int) -> None:
        """So many new rows are not learnt from."""
        self._dropped += rows

    def result(self, seconds: float) -> StepResult:
        """All of it, of a step of so many ``seconds``. ``sample_s`` is the time in which the learner did not learn."""
        more = {
            "staleness_mean": sum(self._staleness) / max(1, len(self._staleness)),
            "staleness_max": float(max(self._staleness, default=0)),
        }
        stats = {policy_id: {**own, **more} for policy_id, own in self._stats.mean().items()}
        timers = {
            "sample_s": max(0.0, seconds - self._learn_s),
            "learn_s": self._learn_s,
            "sync_s": 0.0,
            "learner_wait_s": self._wait_s,
        }
        return StepResult(
            self._env_steps, self._rows, self._updates, self._skipped, self._dropped, stats, timers
        )
