"""Proximal policy optimisation (Schulman et al. 2017): the clipped surrogate, a KL penalty, or both."""

from __future__ import annotations

from typing import Any

from rlcore.batch import ACTION_LOGP, ADVANTAGES, VALUE_TARGETS, VF_PREDS
from rlcore.learning.ppo import CLIP, PPOConfig, PPORules
from rlcore_tf import losses
from rlcore_tf.actor_critic import TFActorCritic
from rlcore_tf.backend import tf
from rlcore_tf.columns import Minibatch
from rlcore_tf.distributions import Evaluated


class PPO(PPORules, TFActorCritic):
    """``tf.ppo``. Statistics: ``policy_loss entropy value_loss kl clip_fraction loss grad_norm``.

    ``kl`` estimates KL(policy that acted || policy now), before the update.
    """

    config: PPOConfig

    def loss(self, evaluated: Evaluated, values: Any, minibatch: Minibatch) -> dict[str, Any]:
        value_clip, advantages, targets = self.config.value_clip, minibatch[ADVANTAGES], minibatch[VALUE_TARGETS]
        log_ratios = evaluated.log_probs - minibatch[ACTION_LOGP]
        ratios = tf.exp(log_ratios)
        terms = {"entropy": evaluated.negative_entropy, "kl": losses.kl_divergence(log_ratios)}
        if self.config.clip is None:
            terms["policy_loss"] = losses.surrogate(ratios, advantages)
        else:
            terms["policy_loss"] = losses.clipped_surrogate(ratios, advantages, minibatch[CLIP])
            terms["clip_fraction"] = losses.clip_fraction(ratios, minibatch[CLIP])
        if value_clip is None:
            terms["value_loss"] = losses.value_loss(values, targets)
        else:
            terms["value_loss"] = losses.clipped_value_loss(values, targets, minibatch[VF_PREDS], value_clip)
        return terms
