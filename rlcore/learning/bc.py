"""Behavioural cloning (Pomerleau 1989): the likelihood of recorded actions is maximised. Rewards are not looked at."""

from __future__ import annotations

from typing import ClassVar

from pydantic import PositiveFloat

from rlcore.learning.coefficient import Coefficient
from rlcore.learning.drawn import DrawnConfig, DrawnGraph
from rlcore.learning.graph import counts_for_nothing
from rlcore.optim import Adam, UpdateRule
from rlcore.policy_graph import GraphConfig
from rlcore.schedule import NonNegativeSchedule, value_at


class BCConfig(DrawnConfig):
    """``entropy_coeff`` (a schedule) keeps the policy from becoming certain; ``epsilon`` is Adam's."""

    learning_rate: NonNegativeSchedule = 1e-3
    entropy_coeff: NonNegativeSchedule = 0.0
    epsilon: PositiveFloat = 1e-8


class BCRules(DrawnGraph):
    """Terms: ``log_likelihood entropy``."""

    Config: ClassVar[type[GraphConfig]] = BCConfig
    has_value = False
    config: BCConfig

    def rho(self) -> None:
        """Samples are learnt from as they are."""

    def update_rule(self) -> UpdateRule:
        return Adam(self._learning_rate, self.config.max_grad_norm, epsilon=self.config.epsilon)

    def loss_columns(self) -> tuple[str, ...]:
        return ()

    def coefficients(self) -> dict[str, Coefficient]:
        entropy_coeff = value_at(self.config.entropy_coeff, self._env_steps)
        return {"log_likelihood": Coefficient(-1.0), "entropy": Coefficient(entropy_coeff, -1.0)}

    def watched(self) -> frozenset[str]:
        return frozenset({"entropy"} if counts_for_nothing(self.config.entropy_coeff) else ())
