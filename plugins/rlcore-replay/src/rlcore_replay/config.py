"""Settings of the optimizer ``replay``."""

from __future__ import annotations

from pydantic import Field, PositiveFloat

from rlcore.policy_optimizer import OptimizerConfig
from rlcore.schedule import NonNegativeSchedule
from rlcore_replay.hindsight import Strategy
from rlcore_replay.priorities import EPSILON


class PrioritizedConfig(OptimizerConfig):
    """Proportional priorities: a transition is drawn with probability in proportion to (|TD error| + epsilon)^alpha."""

    alpha: float = Field(0.6, ge=0.0)
    #: How far the weights of the loss make up for it: 1 is wholly. A number, or points by environment steps.
    beta: NonNegativeSchedule = 0.4
    epsilon: PositiveFloat = EPSILON


class HindsightConfig(OptimizerConfig):
    """Hindsight for environments with goals. Functions are import paths ``package.module:function``.

    Both are given goals that were achieved and goals that are desired, ``[n, ...]`` each, and give an array ``[n]``.
    """

    reward: str
    #: Where an episode would have ended; null leaves the flags as they were.
    terminated: str | None = None
    strategy: Strategy = Strategy.FUTURE
    #: With how many goals each transition is told again.
    goals: int = Field(4, ge=1)


class ReplayConfig(OptimizerConfig):
    """Settings of ``replay``. Each policy has a buffer of its own."""

    #: Rows that a policy's buffer holds.
    capacity: int = Field(50_000, ge=1)
    #: Environment steps that are sampled before anything is learnt.
    learning_starts: int = Field(1000, ge=0)
    #: Rows of one update. Policies that learn from pieces take as many whole sequences as would fill it.
    minibatch_size: int = Field(32, ge=1)
    #: Rows learnt from for each environment step sampled: with 32 a minibatch, 8 is an update every four steps.
    learnt_per_sampled: PositiveFloat = 8.0
    #: Null draws uniformly.
    prioritized: PrioritizedConfig | None = None
    hindsight: HindsightConfig | None = None
    #: Rows of a sequence, for policies that learn from pieces; null is what the evaluators' fragments have.
    sequence_length: int | None = Field(None, ge=1)
    #: Rounds of samples, each with the updates that are then due, in one step.
    rounds: int = Field(1, ge=1)
    #: Where the learner lives; several devices share each minibatch.
    devices: tuple[str, ...] = ("cpu",)
    seed: int = 0
