"""TalliedTurns: an optimizer that waits for nobody and whose step is so many samples, counted in a tally."""

from __future__ import annotations

from pydantic import Field

from rlcore.learner_tally import StepTally
from rlcore.policy_optimizer import OptimizerConfig, StepResult
from rlcore.stepping import TakesTurns


class RoundsConfig(OptimizerConfig):
    """Settings of optimizers whose step is so many samples."""

    #: Samples of each evaluator, on average, that one step of the optimizer takes in.
    rounds: int = Field(default=8, ge=1)


class TalliedTurns(TakesTurns):
    """Its step is ``rounds`` samples of each evaluator, on average; what happens meanwhile goes into ``_tally``."""

    config: RoundsConfig
    _tally: StepTally

    @property
    def has_enough(self) -> bool:
        return self._tally.samples >= self._needed

    @property
    def _needed(self) -> int:
        """How many samples make a step."""
        return self.config.rounds * self.evaluators.size

    def result(self, seconds: float) -> StepResult:
        # What is lost between two steps counts in the next.
        self._tally.lost(self.samples.take_lost())
        tally, self._tally = self._tally, self._tally.following()
        return tally.result(seconds)
