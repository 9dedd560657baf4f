"""REINFORCE (Williams 1992): the return to go of every step weighs the gradient of its log-probability. No critic."""

from __future__ import annotations

from typing import Any

from rlcore.batch import ADVANTAGES
from rlcore.learning.pg import PGConfig, PGRules
from rlcore_tf import losses
from rlcore_tf.columns import Minibatch
from rlcore_tf.distributions import Evaluated
from rlcore_tf.graph import TFPolicyGraph


class PolicyGradient(PGRules, TFPolicyGraph):
    """``tf.pg``. Statistics: ``policy_loss entropy loss grad_norm``.

    Episodes should be sampled whole: a piece that is cut off counts as if nothing came after it.
    """

    config: PGConfig

    def loss(self, evaluated: Evaluated, values: Any, minibatch: Minibatch) -> dict[str, Any]:
        return {
            "policy_loss": losses.policy_gradient(evaluated.log_probs, minibatch[ADVANTAGES]),
            "entropy": evaluated.negative_entropy,
        }
