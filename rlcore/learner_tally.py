"""What happened in one step of an optimizer that waits for nobody, added up as it comes in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from rlcore.learner_actor import LearnerReport
from rlcore.learnt import Learnt
from rlcore.policy_optimizer import MeanStats, StepResult


class StepTally:
    """Counts of one step. Beside the statistics of each of the ``policies`` stand how stale samples were, in versions
    of the weights, and how many samples went with their evaluators before anything was heard of them."""

    def __init__(self, policies: Sequence[str]) -> None:
        self._policies = tuple(policies)
        self._stats = MeanStats()
        self._staleness: list[int] = []
        #: New samples that were taken in.
        self.samples = 0
        self._env_steps = 0
        self._rows = 0
        self._updates = 0
        self._skipped = 0
        self._dropped = 0
        self._lost = 0
        self.learn_s = 0.0

    def following(self) -> Self:
        """That of the next step."""
        return type(self)(self._policies)

    def took(self, samples: int, env_steps: int) -> None:
        """So many new samples, of so many environment steps in all."""
        self.samples += samples
        self._env_steps += env_steps

    def stale(self, versions: Iterable[int]) -> None:
        """Samples were made with weights that so many versions had followed, each."""
        self._staleness += versions

    def updated(self, learnt: Learnt) -> None:
        """Updates were made, and some skipped."""
        self._stats.merge(learnt.stats)
        self._rows += learnt.rows
        self._updates += learnt.updates
        self._skipped += learnt.skipped

    def dropped(self, rows: int) -> None:
        """So many rows that had come are not learnt from."""
        self._dropped += rows

    def lost(self, samples: int) -> None:
        """So many samples were asked for and went with their evaluators."""
        self._lost += samples

    def more(self) -> dict[str, float]:
        """What stands beside the statistics of every policy."""
        return {
            "staleness_mean": sum(self._staleness) / max(1, len(self._staleness)),
            "staleness_max": float(max(self._staleness, default=0)),
            "lost_samples": float(self._lost),
        }

    def timers(self, seconds: float) -> dict[str, float]:
        """Of a step of so many ``seconds``; ``sample_s`` is the time in which nothing was learnt."""
        return {"sample_s": max(0.0, seconds - self.learn_s), "learn_s": self.learn_s, "sync_s": 0.0}

    def result(self, seconds: float) -> StepResult:
        """All of it, of a step of so many ``seconds``."""
        means, more = self._stats.mean(), self.more()
        return StepResult(
            self._env_steps,
            self._rows,
            self._updates,
            self._skipped,
            self._dropped,
            {policy_id: {**means.get(policy_id, {}), **more} for policy_id in self._policies},
            self.timers(seconds),
        )


class LearnerTally(StepTally):
    """The same, with a learner of its own: beside the usual timers stand the seconds between its updates, and
    beside the statistics how many updates were lost with it."""

    def __init__(self, policies: Sequence[str]) -> None:
        super().__init__(policies)
        self._wait_s = 0.0
        self._lost_updates = 0

    def updates_lost(self, updates: int) -> None:
        """So many updates went with a learner."""
        self._lost_updates += updates

    def more(self) -> dict[str, float]:
        return {**super().more(), "lost_updates": float(self._lost_updates)}

    def learnt(self, report: LearnerReport) -> None:
        """What came of one call."""
        self.updated(report.learnt)
        self.learn_s += report.learn_s
        self._wait_s += report.wait_s

    def timers(self, seconds: float) -> dict[str, float]:
        return {**super().timers(seconds), "learner_wait_s": self._wait_s}
