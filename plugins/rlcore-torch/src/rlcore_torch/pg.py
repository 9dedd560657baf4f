"""REINFORCE (Williams 1992): the return to go of every step weighs the gradient of its log-probability. No critic."""

from __future__ import annotations

import functools
from typing import ClassVar

from pydantic import PositiveFloat
from torch import Tensor

from rlcore.acting.actor import Postprocess
from rlcore.acting.rho import returns_to_go
from rlcore.batch import ADVANTAGES
from rlcore.optim import Adam, UpdateRule
from rlcore.policy_graph import GraphConfig
from rlcore.schedule import Schedule, value_at
from rlcore_torch import losses
from rlcore_torch.backward import Coefficient
from rlcore_torch.columns import Minibatch
from rlcore_torch.distributions import Evaluated
from rlcore_torch.graph import TorchConfig, TorchPolicyGraph


class PGConfig(TorchConfig):
    """``normalize_advantages`` gives the returns of all that an evaluator sampled at once mean 0 and deviation 1: a
    constant baseline. ``epsilon`` is Adam's.
    """

    learning_rate: Schedule = 1e-3
    entropy_coeff: Schedule = 0.0
    normalize_advantages: bool = True
    epsilon: PositiveFloat = 1e-8


class PolicyGradient(TorchPolicyGraph):
    """``torch.pg``. Statistics: ``policy_loss entropy loss grad_norm``.

    Episodes should be sampled whole: a piece that is cut off counts as if nothing came after it.
    """

    Config: ClassVar[type[GraphConfig]] = PGConfig
    config: PGConfig
    has_value = False

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

    def loss(self, evaluated: Evaluated, values: Tensor | None, minibatch: Minibatch) -> dict[str, Tensor]:
        return {
            "policy_loss": losses.policy_gradient(evaluated.log_probs, minibatch[ADVANTAGES]),
            "entropy": evaluated.negative_entropy,
        }
