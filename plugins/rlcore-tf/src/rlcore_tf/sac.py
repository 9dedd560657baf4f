"""Soft actor-critic with two critics and a temperature that is learnt (Haarnoja et al. 2018b)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlcore.learning.sac import LOG_ALPHA, SACConfig, SACRules
from rlcore_tf.backend import tf
from rlcore_tf.columns import Minibatch, column
from rlcore_tf.off_policy_actor_critic import TFOffPolicyActorCritic
from rlcore_tf.soft_losses import CategoricalLoss, GaussianLoss, SoftLoss
from rlcore_tf.updates import Terms


class SAC(SACRules, TFOffPolicyActorCritic):
    """``tf.sac``, for actions in a bounded Box and for Discrete ones.

    Statistics: ``q_loss policy_loss temperature_loss q_mean entropy temperature loss grad_norm``. All gradients of an
    update are taken at the same weights. The temporal difference of a row is the mean over the critics of its absolute
    value.
    """

    config: SACConfig

    def _build(self, rng: np.random.Generator) -> None:
        super()._build(rng)
        actions = column((self._size,), self._arithmetic.dtype) if self._size else column((), tf.int64)
        masked = 0 if self._choice.mask is None else self._architecture.policy_outputs
        self._begin_networks(rng, actions, masked, follow_policy=False)
        self._loss: SoftLoss = GaussianLoss(self._networks) if self._size else CategoricalLoss(self._networks)

    # -- learning

    def totals(self, weights: Mapping[str, Any], inputs: Minibatch) -> Terms:
        fixed, dtype = self.config.temperature, self._arithmetic.dtype
        frozen = self._frozen(weights)
        alpha = tf.exp(frozen[LOG_ALPHA]) if fixed is None else tf.constant(fixed, dtype)
        soft = self._loss(weights, frozen, self._targets.named(), alpha, inputs)
        found = self._critic_terms(soft.values, soft.successors, inputs)
        entropy, rows = tf.stop_gradient(tf.reduce_sum(soft.entropy)), tf.cast(tf.shape(soft.entropy)[0], dtype)
        excess = entropy - rows * self._target_entropy
        terms = [
            found.loss,
            tf.reduce_sum(soft.policy),
            weights[LOG_ALPHA] * excess if fixed is None else tf.zeros((), dtype),
            found.mean,
            entropy,
            alpha * rows,
            *self._more_terms(weights, frozen, inputs),
        ]
        return Terms(tf.stack(terms), found.errors)

    def _more_terms(
        self, weights: Mapping[str, Any], frozen: Mapping[str, Any], inputs: Minibatch
    ) -> list[Any]:
        """What the rules of a class derived from this name beside the terms of this one."""
        return []
