"""Settings of the optimizer ``mbpo``."""

from __future__ import annotations

from typing import Any

from pydantic import Field, PositiveFloat, PositiveInt

from rlcore.policy_optimizer import OptimizerConfig
from rlcore.schedule import NonNegativeSchedule


class DynamicsSettings(OptimizerConfig):
    """The ensemble of dynamics models, and how it learns from what was sampled."""

    #: A policy graph that learns dynamics, ``framework.name`` or a name alone: then in the framework of the policy, if
    #: it is there.
    graph: str = "dynamics"
    #: Its settings, as ``policy`` and ``model`` of a run are those of the policy.
    policy: dict[str, Any] = {}
    model: dict[str, Any] = {}
    #: Rows of one update, and rows learnt from for each environment step sampled.
    minibatch_size: PositiveInt = 256
    learnt_per_sampled: PositiveFloat = 256.0
    #: Whether it learns in a worker of its own while samples are collected and the policy learns: what is imagined then
    #: comes of dynamics that are one round older.
    in_parallel: bool = False


class MBPOConfig(OptimizerConfig):
    """Settings of ``mbpo``. Each policy has buffers and dynamics of its own."""

    #: Rows of what was sampled that are kept, and of what was imagined.
    capacity: PositiveInt = 100_000
    imagined_capacity: PositiveInt = 20_000
    #: Environment steps that are sampled before anything is learnt.
    learning_starts: int = Field(default=1000, ge=0)
    #: Rows of one update of the policy, and of these the part that was sampled.
    minibatch_size: PositiveInt = 128
    real_share: float = Field(default=0.1, ge=0.0, le=1.0)
    #: Rows that the policy learns from for each environment step sampled.
    learnt_per_sampled: PositiveFloat = 128.0
    #: Rollouts begun for each environment step sampled, and of how many steps each is: a number, or points by
    #: environment steps, rounded.
    rollouts_per_sampled: PositiveFloat = 20.0
    rollout_length: NonNegativeSchedule = 1.0
    dynamics: DynamicsSettings = Field(default_factory=DynamicsSettings)
    #: Rounds of samples, each with what is then due, in one step.
    rounds: PositiveInt = 1
    #: Where the learner of the policies lives, and of the dynamics where these are not learnt in parallel.
    devices: tuple[str, ...] = ("cpu",)
    seed: int = 0
