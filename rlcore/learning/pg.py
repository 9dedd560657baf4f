"""REINFORCE (Williams 1992): the return to go of every step weighs the gradient of its log-probability. No critic."""

from __future__ import annotations

import functools
from typing import ClassVar

from pydantic import PositiveFloat

from rlcore.acting.actor import Postprocess
from rlcore.acting.rho import returns_to_go
from rlcore.batch import ADVANTAGES
from rlcore.learning.coefficient import Coefficient
from rlcore.learning.drawn import DrawnConfig, DrawnGraph
from rlcore.learning.graph import counts_for_nothing
from rlcore.optim import Adam, UpdateRule
from rlcore.policy_graph import GraphConfig
from rlcore.schedule import NonNegativeSchedule, value_at


class PGConfig(DrawnConfig):
    """``normalize_advantages`` gives the returns of all that an evaluator sampled at once mean 0 and deviation 1: a
    constant baseline. ``epsilon`` is Adam's.
    """

    learning_rate: NonNegativeSchedule = 1e-3
    entropy_coeff: NonNegativeSchedule = 0.0
    normalize_advantages: bool = True
    epsilon: PositiveFloat = 1e-8


class PGRules(DrawnGraph):
    """Terms: ``policy_loss entropy``."""

    Config: ClassVar[type[GraphConfig]] = PGConfig
    has_value = False
    config: PGConfig

    def rho(self) -> Postprocess:
        own = self.config
        return functools.partial(returns_to_go, gamma=own.gamma, normalize=own.normalize_advantages)

    def update_rule(self) -> UpdateRule:
        return Adam(self._learning_rate, self.config.max_grad_norm, epsilon=self.config.epsilon)

    def loss_columns(self) -> tuple[str, ...]:
        return (ADVANTAGES,)

    def coefficients(self) -> dict[str, Coefficient]:
        entropy_coeff = value_at(self.config.entropy_coeff, self._env_steps)
        return {"policy_loss": Coefficient(-1.0, -1.0), "entropy": Coefficient(entropy_coeff, -1.0)}

    def watched(self) -> frozenset[str]:
        return frozenset({"entropy"} if counts_for_nothing(self.config.entropy_coeff) else ())
