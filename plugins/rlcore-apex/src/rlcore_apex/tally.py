"""What happened in one step of the optimizer, added up as it comes in."""

from __future__ import annotations

from rlcore.policy_optimizer import MeanStats, StepResult
from rlcore_apex.learner_actor import Learnt


class Tally:
    """Counts of one step. Beside each policy's own statistics stand how stale the samples were, in versions of the
    weights; beside the usual timers the seconds that lie between the updates of the learner."""

    def __init__(self) -> None:
        self._stats = MeanStats()
        self.samples = 0
        self._env_steps = 0
        self._staleness: list[int] = []
        self._rows = 0
        self._updates = 0
        self._skipped = 0
        self._dropped = 0
        self._learn_s = 0.0
        self._wait_s = 0.0

    def sampled(self, env_steps: int, staleness: int) -> None:
        """A sample, by weights that so many versions have followed."""
        self.samples += 1
        self._env_steps += env_steps
        self._staleness.append(staleness)

    def learnt(self, learnt: Learnt) -> None:
        """An update."""
        self._stats.add(learnt.policy_id, learnt.stats)
        self._rows += learnt.rows
        self._updates += not learnt.skipped
        self._skipped += learnt.skipped
        self._learn_s += learnt.learn_s
        self._wait_s += learnt.wait_s

    def dropped(self, rows: int) -> None:
        """So many rows went with a worker."""
        self._dropped += rows

    def result(self, seconds: float) -> StepResult:
        """All of it, of a step of so many ``seconds``. ``sample_s`` is the time in which the learner did not learn."""
        more = {
            "staleness_mean": sum(self._staleness) / max(1, len(self._staleness)),
            "staleness_max": float(max(self._staleness, default=0)),
        }
        stats = {policy_id: {**own, **more} for policy_id, own in self._stats.mean().items()}
        return StepResult(
            self._env_steps,
            self._rows,
            self._updates,
            self._skipped,
            self._dropped,
            stats,
            {
                "sample_s": max(0.0, seconds - self._learn_s),
                "learn_s": self._learn_s,
                "sync_s": 0.0,
                "learner_wait_s": self._wait_s,
            },
        )
