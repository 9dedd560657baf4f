"""Asynchronous PPO: the clipped surrogate of advantages by V-trace; see :mod:`rlcore.learning.appo`."""

from __future__ import annotations

from typing import Any

from rlcore.learning.appo import APPOConfig, APPORules
from rlcore.learning.ppo import CLIP
from rlcore_tf import losses
from rlcore_tf.backend import tf
from rlcore_tf.columns import Minibatch
from rlcore_tf.vtrace_graph import VTracePolicyGraph


class APPO(APPORules, VTracePolicyGraph):
    """``tf.appo``. Statistics: ``policy_loss entropy value_loss kl loss grad_norm``.

    ``kl`` estimates KL(policy that acted || policy now), before the update.
    """

    config: APPOConfig

    def policy_loss(self, log_probs: Any, log_ratios: Any, advantages: Any, minibatch: Minibatch) -> Any:
        return losses.clipped_surrogate(tf.exp(log_ratios), advantages, minibatch[CLIP])
