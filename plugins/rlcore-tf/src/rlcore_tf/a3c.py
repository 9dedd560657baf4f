"""Advantage actor-critic (Mnih et al. 2016): A3C where gradients arrive one by one, A2C where they are averaged."""

from __future__ import annotations

from typing import Any

from rlcore.batch import ADVANTAGES, VALUE_TARGETS
from rlcore.learning.a3c import A3CConfig, A3CRules
from rlcore_tf import losses
from rlcore_tf.actor_critic import TFActorCritic
from rlcore_tf.columns import Minibatch
from rlcore_tf.distributions import Evaluated


class A3C(A3CRules, TFActorCritic):
    """``tf.a3c``. Statistics: ``policy_loss entropy value_loss loss grad_norm``."""

    config: A3CConfig

    def loss(self, evaluated: Evaluated, values: Any, minibatch: Minibatch) -> dict[str, Any]:
        return {
            "policy_loss": losses.policy_gradient(evaluated.log_probs, minibatch[ADVANTAGES]),
            "entropy": evaluated.negative_entropy,
            "value_loss": losses.value_loss(values, minibatch[VALUE_TARGETS]),
        }
