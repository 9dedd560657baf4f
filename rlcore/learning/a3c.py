"""Advantage actor-critic (Mnih et al. 2016): A3C where gradients arrive one by one, A2C where they are averaged."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from rlcore.batch import ADVANTAGES, VALUE_TARGETS
from rlcore.learning.actor_critic import ActorCriticConfig, ActorCriticRules
from rlcore.learning.chosen_rule import ChosenRuleConfig
from rlcore.learning.coefficient import Coefficient
from rlcore.optim import UpdateRule
from rlcore.policy_graph import GraphConfig
from rlcore.schedule import NonNegativeSchedule


class A3CConfig(ActorCriticConfig, ChosenRuleConfig):
    """``gae_lambda`` 1 makes advantages of n-step returns, n up to the length of a fragment.

    ``rmsprop_decay`` is of RMSProp only, left out 0.99; ``epsilon`` of both rules.
    """

    learning_rate: NonNegativeSchedule = 7e-4
    gae_lambda: float = Field(1.0, ge=0.0, le=1.0)
    entropy_coeff: NonNegativeSchedule = 0.01
    normalize_advantages: bool = False
    update_rule: Literal["rmsprop", "adam"] = "rmsprop"


class A3CRules(ActorCriticRules):
    """Terms: ``policy_loss entropy value_loss``."""

    Config: ClassVar[type[GraphConfig]] = A3CConfig
    config: A3CConfig

    def update_rule(self) -> UpdateRule:
        return self.config.rule_at(self._learning_rate, self.config.max_grad_norm)

    def loss_columns(self) -> tuple[str, ...]:
        return ADVANTAGES, VALUE_TARGETS

    def coefficients(self) -> dict[str, Coefficient]:
        return {
            "policy_loss": Coefficient(-1.0, -1.0),
            "entropy": Coefficient(self._entropy_coeff, -1.0),
            "value_loss": Coefficient(self.config.vf_loss_coeff),
        }
