"""REINFORCE (Williams 1992): the return to go of every step weighs the gradient of its log-probability. No critic."""

from __future__ import annotations

import functools
from typing import ClassVar

import numpy as np
from pydantic import PositiveFloat
from torch import Tensor

from rlcore.acting.actor import Postprocess
from rlcore.batch import ADVANTAGES, SampleBatch
from rlcore.optim import Adam, UpdateRule
from rlcore.policy_graph import GraphConfig, Pinned
from rlcore.returns import discounted_returns
from rlcore.schedule import Schedule, value_at
from rlcore_torch import losses
from rlcore_torch.columns import Minibatch
from rlcore_torch.distributions import Evaluated
from rlcore_torch.graph import TorchConfig, TorchPolicyGraph, Weight


class PGConfig(TorchConfig):
    """``normalize_advantages`` gives the returns of a whole batch mean 0 and deviation 1: a constant baseline."""

    learning_rate: Schedule = 1e-3
    entropy_coeff: Schedule = 0.0
    normalize_advantages: bool = True
    adam_epsilon: PositiveFloat = 1e-8


class PolicyGradient(TorchPolicyGraph):
    """``torch.pg``. Statistics: ``policy_loss entropy loss grad_norm``.

    Episodes should be sampled whole: a piece that is cut off counts as if nothing came after it.
    """

    Config: ClassVar[type[GraphConfig]] = PGConfig
    config: PGConfig
    has_value = False

    def rho(self) -> Postprocess:
        return functools.partial(discounted_returns, gamma=self.config.gamma)

    def rule(self) -> UpdateRule:
        return Adam(self._learning_rate, self.config.max_grad_norm, epsilon=self.config.adam_epsilon)

    def loss_columns(self) -> tuple[str, ...]:
        return (ADVANTAGES,)

    def pin(self, batch: SampleBatch) -> Pinned[list[Minibatch]]:
        if self.config.normalize_advantages and len(batch) > 1:
            returns = batch[ADVANTAGES].astype(np.float64)
            normalised = (returns - returns.mean()) / (returns.std() + 1e-8)
            batch = batch.with_rows(**{ADVANTAGES: normalised.astype(np.float32)})
        return super().pin(batch)

    def weights(self) -> dict[str, Weight]:
        entropy_coeff = value_at(self.config.entropy_coeff, self._env_steps)
        return {"policy_loss": Weight(-1.0, -1.0), "entropy": Weight(entropy_coeff, -1.0)}

    def loss(self, evaluated: Evaluated, values: Tensor | None, minibatch: Minibatch) -> dict[str, Tensor]:
        return {
            "policy_loss": losses.policy_gradient(evaluated.log_probs, minibatch[ADVANTAGES]),
            "entropy": evaluated.negative_entropy,
        }
