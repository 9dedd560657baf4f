"""IMPALA (Espeholt et al. 2018): actor-critic from samples of older policies, put right by V-trace."""

from __future__ import annotations

from typing import Any

from rlcore.learning.impala import IMPALAConfig, IMPALARules
from rlcore_tf import losses
from rlcore_tf.backend import tf
from rlcore_tf.columns import Minibatch
from rlcore_tf.vtrace_graph import VTracePolicyGraph


class IMPALA(IMPALARules, VTracePolicyGraph):
    """``tf.impala``. Statistics: ``policy_loss entropy value_loss kl loss grad_norm``.

    ``kl`` estimates KL(policy that acted || policy now), before the update: how stale the samples are.
    """

    config: IMPALAConfig

    def advantages(self, log_ratios: Any, errors: Any) -> Any:
        return errors * tf.minimum(tf.exp(log_ratios), self.config.advantage_rho_clip)

    def policy_loss(self, log_probs: Any, log_ratios: Any, advantages: Any, minibatch: Minibatch) -> Any:
        """Of ``rho * log pi(a) * (r + gamma * v of the successor - V)``, section 4.2 there."""
        return losses.policy_gradient(log_probs, advantages)
