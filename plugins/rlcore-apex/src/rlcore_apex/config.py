"""Settings of the optimizer ``apex``."""

from __future__ import annotations

from pydantic import Field

from rlcore.policy_optimizer import OptimizerConfig
from rlcore.tallied_turns import RoundsConfig
from rlcore_replay import PrioritizedConfig


class LadderConfig(OptimizerConfig):
    """How much each environment explores: ``base ** (1 + exponent * i / (n - 1))`` of ``n`` (the paper's values)."""

    base: float = Field(default=0.4, gt=0.0, le=1.0)
    exponent: float = Field(default=7.0, ge=0.0)


class ApexConfig(RoundsConfig):
    """Settings of ``apex``. Where something is counted by row or step, it is of one policy or one environment."""

    #: Transitions that are kept of each policy, by all replay actors together.
    capacity: int = Field(default=2_000_000, ge=1)
    #: Environment steps that are sampled before anything is learnt.
    learning_starts: int = Field(default=50_000, ge=0)
    #: Rows of one update.
    minibatch_size: int = Field(default=512, ge=1)
    #: Rows learnt from for each environment step sampled: whoever is ahead waits. Null: everyone as fast as they can.
    learnt_per_sampled: float | None = Field(default=None, gt=0.0)
    prioritized: PrioritizedConfig = PrioritizedConfig()
    #: How many replay actors share the memory.
    replay_actors: int = Field(default=1, ge=1)
    #: Samples asked for ahead of each evaluator; minibatches drawn ahead from each replay actor; and those on their way
    #: to the learner and before it, in all.
    samples_ahead: int = Field(default=2, ge=1)
    draws_ahead: int = Field(default=4, ge=1)
    learner_queue: int = Field(default=16, ge=1)
    #: Environment steps of an evaluator after which it is sent the newest weights.
    max_weight_delay: int = Field(default=400, ge=1)
    #: Updates after which the learner's state is kept, for one that takes its place if it is lost.
    snapshot_every: int = Field(default=200, ge=1)
    exploration: LadderConfig = LadderConfig()
    #: Where the learner lives; several devices share each minibatch.
    devices: tuple[str, ...] = ("cpu",)
    seed: int = 0
