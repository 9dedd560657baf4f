"""Advantage actor-critic (Mnih et al. 2016): A3C where gradients arrive one by one, A2C where they are averaged."""

from __future__ import annotations

from torch import Tensor

from rlcore.batch import ADVANTAGES, VALUE_TARGETS
from rlcore.learning.a3c import A3CConfig, A3CRules
from rlcore_torch import losses
from rlcore_torch.actor_critic import TorchActorCritic
from rlcore_torch.columns import Minibatch
from rlcore_torch.distributions import Evaluated


class A3C(A3CRules, TorchActorCritic):
    """``torch.a3c``. Statistics: ``policy_loss entropy value_loss loss grad_norm``."""

    config: A3CConfig

    def loss(self, evaluated: Evaluated, values: Tensor | None, minibatch: Minibatch) -> dict[str, Tensor]:
        assert values is not None
        return {
            "policy_loss": losses.policy_gradient(evaluated.log_probs, minibatch[ADVANTAGES]),
            "entropy": evaluated.negative_entropy,
            "value_loss": losses.value_loss(values, minibatch[VALUE_TARGETS]),
        }
