"""Learning from recorded actions: behavioural cloning, and cloning that weighs actions by their advantages."""

from __future__ import annotations

from typing import Any

from rlcore.batch import VALUE_TARGETS
from rlcore.learning.bc import BCConfig, BCRules
from rlcore.learning.marwil import LIMIT, SHARPNESS, SQUARE, MARWILConfig, MARWILRules
from rlcore_tf import losses
from rlcore_tf.backend import tf
from rlcore_tf.columns import Minibatch
from rlcore_tf.distributions import Evaluated
from rlcore_tf.graph import TFPolicyGraph


class BC(BCRules, TFPolicyGraph):
    """``tf.bc``. Statistics: ``log_likelihood entropy loss grad_norm``."""

    config: BCConfig

    def loss(self, evaluated: Evaluated, values: Any, minibatch: Minibatch) -> dict[str, Any]:
        return {"log_likelihood": tf.reduce_sum(evaluated.log_probs), "entropy": evaluated.negative_entropy}


class MARWIL(MARWILRules, TFPolicyGraph):
    """``tf.marwil``. Statistics: ``log_likelihood entropy value_loss weight advantage_square loss grad_norm``."""

    config: MARWILConfig

    def loss(self, evaluated: Evaluated, values: Any, minibatch: Minibatch) -> dict[str, Any]:
        advantages = minibatch[VALUE_TARGETS] - tf.stop_gradient(values)
        weights = losses.advantage_weights(advantages, minibatch[SHARPNESS], minibatch[LIMIT])
        return {
            "log_likelihood": losses.policy_gradient(evaluated.log_probs, weights),
            "entropy": evaluated.negative_entropy,
            "value_loss": losses.value_loss(values, minibatch[VALUE_TARGETS]),
            "weight": tf.reduce_sum(weights),
            SQUARE: tf.reduce_sum(tf.square(advantages)),
        }
