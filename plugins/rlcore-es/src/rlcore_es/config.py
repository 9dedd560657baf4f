"""Settings of the optimizer ``es``."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from rlcore.optim import SGD, Adam, UpdateRule
from rlcore.policy_optimizer import OptimizerConfig
from rlcore.schedule import PositiveSchedule
from rlcore_es.shaping import BestDirections, CentredRanks, Shaping


class AdamRule(BaseModel):
    """Adam (Kingma and Ba 2015)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    beta1: float = Field(default=0.9, ge=0.0, lt=1.0)
    beta2: float = Field(default=0.999, ge=0.0, lt=1.0)
    epsilon: PositiveFloat = 1e-8

    def rule(self) -> UpdateRule:
        """With a learning rate that each update says anew."""
        return Adam(1.0, beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon)


class SGDRule(BaseModel):
    """Gradient ascent with momentum."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    momentum: float = Field(ge=0.0, lt=1.0)

    def rule(self) -> UpdateRule:
        """With a learning rate that each update says anew."""
        return SGD(1.0, momentum=self.momentum)


class ESConfig(OptimizerConfig):
    """Settings of ``es``.

    ``shaping`` and ``rule`` are told apart by what stands in them: nothing is centred ranks and Adam, ``{top: 16}`` the
    16 best directions of ARS, ``{momentum: 0.9}`` gradient ascent.
    """

    #: Antithetic pairs that are tried in a generation: each is two members, the weights plus and minus some noise.
    pairs: int = Field(64, ge=1, le=1 << 16)
    #: Of the noise on the weights.
    noise_std: PositiveFloat = 0.05
    #: By environment steps; of an update after each generation.
    learning_rate: PositiveSchedule = 0.02
    shaping: Shaping = CentredRanks()
    rule: AdamRule | SGDRule = AdamRule()
    #: How much of each weight an update takes away, beside the learning rate.
    l2: NonNegativeFloat = 0.0
    #: Of the noise on continuous actions of members, and of the policy as it is.
    action_noise: NonNegativeFloat = 0.0
    #: Of each member in a generation; its return is their mean.
    episodes: PositiveInt = 1
    #: Pairs that one evaluator plays at once, taking turns in its slots: what evaluators are given, one by one.
    task_pairs: PositiveInt = 32
    #: Whether the members of a pair begin in the same states: less noise between them, and more waste where episodes
    #: differ in length.
    common_starts: bool = False
    #: How often the policy as it is plays in a generation: what the returns of a run are of.
    evaluations: PositiveInt = 8
    #: Numbers in the table of noise, 4 bytes each, once on each machine.
    noise_table: PositiveInt = 10_000_000
    #: With more evaluators, actors stand between them and the driver, each with so many below it at most.
    fan_out: int = Field(64, ge=2)
    seed: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _as_many_as_there_are(self) -> ESConfig:
        if isinstance(self.shaping, BestDirections) and self.shaping.top > self.pairs:
            raise ValueError(f"shaping.top: {self.shaping.top} of {self.pairs} pairs: at most all of them count")
        return self
