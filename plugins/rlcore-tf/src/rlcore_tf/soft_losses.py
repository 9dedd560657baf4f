"""The losses of soft actor-critic: of continuous actions (Haarnoja et al. 2018) and discrete ones (Christodoulou 2019).

Entropies are those of actions as numbers from -1 to 1, whatever the bounds.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

from rlcore.acting.soft import LOG_STD_BOUNDS
from rlcore.batch import ACTIONS
from rlcore.learning.off_policy import NEXT, NEXT_FORBIDDEN, OWN_FORBIDDEN
from rlcore.learning.sac import FORBIDDEN_LOGIT, NEXT_NOISE, NOISE
from rlcore.learning.targets import TARGET
from rlcore_tf.backend import tf
from rlcore_tf.columns import Minibatch
from rlcore_tf.critics import PolicyAndCritics
from rlcore_tf.value_losses import of_actions

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class Soft(NamedTuple):
    """``values``, those ``[n]`` of each critic of the actions taken, with gradients to the critics; ``successors [n]``,
    the soft values of the states after; ``policy [n]``, what the policy minimises; ``entropy [n]``."""

    values: list[Any]
    successors: Any
    policy: Any
    entropy: Any


def gaussian(outputs: Any, noise: Any) -> tuple[Any, Any]:
    """Actions from -1 to 1, ``[n, k]``, and their log-probabilities ``[n]``, of ``outputs [n, 2k]`` and normal draws
    ``[n, k]`` (Haarnoja et al. 2018, appendix C)."""
    mean, log_std = tf.split(outputs, 2, axis=1)
    log_std = tf.clip_by_value(log_std, *LOG_STD_BOUNDS)
    sample = mean + tf.exp(log_std) * noise
    slopes = 2.0 * (math.log(2.0) - sample - tf.math.softplus(-2.0 * sample))
    log_probs = tf.square(noise) * -0.5 - log_std - slopes - _HALF_LOG_2PI
    return tf.tanh(sample), tf.reduce_sum(log_probs, axis=1)


class SoftLoss(ABC):
    """One kind of actions. ``weights`` and ``targets`` are as ``PolicyAndCritics`` takes them, ``frozen`` the former
    without gradients; ``alpha`` is the temperature, a scalar without gradient."""

    def __init__(self, networks: PolicyAndCritics) -> None:
        self._networks = networks

    @abstractmethod
    def __call__(
        self,
        weights: Mapping[str, Any],
        frozen: Mapping[str, Any],
        targets: Mapping[str, Any],
        alpha: Any,
        inputs: Minibatch,
    ) -> Soft: ...


class GaussianLoss(SoftLoss):
    """Actions in a box, ``[n, k]``."""

    def __call__(
        self,
        weights: Mapping[str, Any],
        frozen: Mapping[str, Any],
        targets: Mapping[str, Any],
        alpha: Any,
        inputs: Minibatch,
    ) -> Soft:
        networks = self._networks
        read, after = networks.body.read(inputs), networks.body.read(inputs, NEXT)
        actions, log_probs = gaussian(networks.policy(frozen, "", after), inputs[NEXT_NOISE])
        successors = networks.lowest(targets, TARGET, after, actions, 2)[:, 0] - alpha * log_probs
        values = [own[:, 0] for own in networks.critics(weights, "", read, inputs[ACTIONS], 2)]
        actions, log_probs = gaussian(networks.policy(weights, "", read), inputs[NOISE])
        own = networks.lowest(frozen, "", read, actions, 2)[:, 0]
        return Soft(values, successors, alpha * log_probs - own, -log_probs)


class CategoricalLoss(SoftLoss):
    """Discrete actions, int64 ``[n]``: expectations over them are exact."""

    def __call__(
        self,
        weights: Mapping[str, Any],
        frozen: Mapping[str, Any],
        targets: Mapping[str, Any],
        alpha: Any,
        inputs: Minibatch,
    ) -> Soft:
        networks = self._networks
        read, after = networks.body.read(inputs), networks.body.read(inputs, NEXT)
        log_probs = _log_probs(networks.policy(frozen, "", after), inputs.get(NEXT_FORBIDDEN))
        lowest = networks.lowest(targets, TARGET, after, None, 2)
        successors = tf.reduce_sum(tf.exp(log_probs) * (lowest - alpha * log_probs), axis=1)
        values = networks.critics(weights, "", read, None, 2)
        log_probs = _log_probs(networks.policy(weights, "", read), inputs.get(OWN_FORBIDDEN))
        probabilities, lowest = tf.exp(log_probs), tf.stop_gradient(functools.reduce(tf.minimum, values))
        policy = tf.reduce_sum(probabilities * (alpha * log_probs - lowest), axis=1)
        entropy = -tf.reduce_sum(probabilities * log_probs, axis=1)
        return Soft([of_actions(own, inputs[ACTIONS]) for own in values], successors, policy, entropy)


def _log_probs(logits: Any, forbidden: Any) -> Any:
    if forbidden is not None:
        logits = tf.where(forbidden, tf.constant(FORBIDDEN_LOGIT, logits.dtype), logits)
    return tf.nn.log_softmax(logits)
