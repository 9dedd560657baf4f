"""Advantage actor-critic (Mnih et al. 2016): A3C where gradients arrive one by one, A2C where they are averaged."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, PositiveFloat

from rlcore.batch import ADVANTAGES, VALUE_TARGETS
from rlcore.learning.actor_critic import ActorCriticConfig, ActorCriticRules
from rlcore.learning.coefficient import Coefficient
from rlcore.optim import Adam, RMSProp, UpdateRule
from rlcore.policy_graph import GraphConfig
from rlcore.schedule import Schedule


class A3CConfig(ActorCriticConfig):
    """``gae_lambda`` 1 makes advantages of n-step returns, n up to the length of a fragment.

    ``rmsprop_decay`` is of use with ``update_rule: rmsprop`` only, ``epsilon`` with both.
    """

    learning_rate: Schedule = 7e-4
    gae_lambda: float = Field(1.0, ge=0.0, le=1.0)
    entropy_coeff: Schedule = 0.01
    normalize_advantages: bool = False
    update_rule: Literal["rmsprop", "adam"] = "rmsprop"
    rmsprop_decay: float = Field(0.99, gt=0.0, lt=1.0)
    epsilon: PositiveFloat = 1e-5


class A3CRules(ActorCriticRules):
    """Terms: ``policy_loss entropy value_loss``."""

    Config: ClassVar[type[GraphConfig]] = A3CConfig
    config: A3CConfig

    def update_rule(self) -> UpdateRule:
        config = self.config
        if config.update_rule == "adam":
            return Adam(self._learning_rate, config.max_grad_norm, epsilon=config.epsilon)
        return RMSProp(self._learning_rate, config.max_grad_norm, decay=config.rmsprop_decay, epsilon=config.epsilon)

    def loss_columns(self) -> tuple[str, ...]:
        return ADVANTAGES, VALUE_TARGETS

    def coefficients(self) -> dict[str, Coefficient]:
        return {
            "policy_loss": Coefficient(-1.0, -1.0),
            "entropy": Coefficient(self._entropy_coeff, -1.0),
            "value_loss": Coefficient(self.config.vf_loss_coeff),
        }
