"""The settings of policy graphs that learn values from replayed transitions."""

from __future__ import annotations

from pydantic import Field, PositiveFloat, PositiveInt

from rlcore.learning.graph import LearningConfig
from rlcore.schedule import NonNegativeSchedule


class OffPolicyConfig(LearningConfig):
    """What every policy graph of this kind has to set.

    Targets become equal to what they follow every ``target_update_every`` environment steps; where ``tau`` is given
    they move by that part of the way at every update instead. ``n_step`` rewards are summed before the value of a
    later state counts. Temporal differences above ``huber_delta`` count linearly, null squares them all.
    """

    max_grad_norm: PositiveFloat | None = None
    n_step: PositiveInt = 1
    huber_delta: PositiveFloat | None = None
    target_update_every: PositiveInt = 500
    tau: float | None = Field(None, gt=0.0, le=1.0)
    adam_epsilon: PositiveFloat = 1e-8


class CriticsConfig(OffPolicyConfig):
    """Of a policy with critics: ``learning_rate`` is the critics', and the policy's where ``policy_learning_rate`` is
    left out."""

    learning_rate: NonNegativeSchedule = 1e-3
    policy_learning_rate: NonNegativeSchedule | None = None
    tau: float | None = Field(0.005, gt=0.0, le=1.0)
