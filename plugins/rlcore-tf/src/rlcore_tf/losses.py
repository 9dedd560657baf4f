"""The parts of the losses as pure functions of tensors. Which parts a loss has is the business of its policy graph.

Arguments are ``[n]``, one number for each sample, and scalars; results are sums over the rows, scalars. A loss is an
average over samples, and sums are what can be added over devices and workers before they are divided.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlcore_tf.backend import tf


def policy_gradient(log_probs: Any, advantages: Any) -> Any:
    """Sum of ``log pi(a) * advantage``, to be maximised (Williams 1992)."""
    return tf.reduce_sum(log_probs * advantages)


def surrogate(ratios: Any, advantages: Any) -> Any:
    """Sum of ``ratio * advantage``, to be maximised (Schulman et al. 2015, equation 14)."""
    return tf.reduce_sum(ratios * advantages)


def clipped_surrogate(ratios: Any, advantages: Any, clip: Any) -> Any:
    """Sum of ``min(ratio * A, clamp(ratio, 1 - clip, 1 + clip) * A)`` (Schulman et al. 2017, equation 7).

    The second argument matters only as an upper bound of the first: ``(1 + clip) A`` where the advantage is positive,
    ``(1 - clip) A`` where it is negative. Both are ``A + clip |A|``, which no gradient flows through.
    """
    return tf.reduce_sum(tf.minimum(ratios * advantages, advantages + clip * tf.abs(advantages)))


def advantage_weights(advantages: Any, sharpness: Any, limit: Any) -> Any:
    """``min(exp(sharpness * A), exp(limit))`` by row (Wang et al. 2018, equation 4; sharpness: beta / c)."""
    return tf.exp(tf.minimum(advantages * sharpness, limit))


def kl_divergence(log_ratios: Any) -> Any:
    """Estimates the sum over rows of KL(old || new) from actions of the old policy: ``(r - 1) - log r``.

    Not negative row by row, without bias, and so is its gradient (Schulman 2020, "Approximating KL divergence", k3
    with the roles as here: samples of the old policy, ``r = new / old``).
    """
    return tf.reduce_sum(tf.math.expm1(log_ratios) - log_ratios)


def cross_entropy(log_probs: Any, targets: Any) -> Any:
    """Minus the sum of ``target * log pi`` over rows and actions, both ``[n, actions]``."""
    return -tf.reduce_sum(log_probs * targets)


def value_loss(values: Any, targets: Any) -> Any:
    """Sum of ``(V - target)**2``."""
    return tf.reduce_sum(tf.math.squared_difference(values, targets))


def clipped_value_loss(values: Any, targets: Any, old_values: Any, clip: float) -> Any:
    """Sum of ``max((V - target)**2, (V_old + clamp(V - V_old, -clip, clip) - target)**2)``: an update gains nothing
    from moving a value further than ``clip`` (the ``baselines`` code of Schulman et al. 2017)."""
    clipped = old_values + tf.clip_by_value(values - old_values, -clip, clip)
    return tf.reduce_sum(
        tf.maximum(tf.math.squared_difference(values, targets), tf.math.squared_difference(clipped, targets))
    )


def clip_fraction(ratios: Any, clip: Any) -> Any:
    """The number of rows whose ratio is outside ``[1 - clip, 1 + clip]``."""
    return tf.reduce_sum(tf.cast(tf.abs(ratios - 1.0) > clip, ratios.dtype))


def normalize(parts: Sequence[Any]) -> list[Any]:
    """Advantages with mean 0 and standard deviation 1 over all ``parts`` together, which may be on several devices.

    The deviation is that of the rows themselves (divided by n). A single row stays as it is.
    """
    whole = parts[0] if len(parts) == 1 else tf.concat(list(parts), axis=0)
    mean = tf.reduce_mean(whole)
    deviation = tf.sqrt(tf.reduce_mean(tf.math.squared_difference(whole, mean)))
    single = tf.size(whole) < 2
    mean = tf.where(single, tf.zeros_like(mean), mean)
    scale = tf.where(single, tf.ones_like(mean), 1.0 / (deviation + 1e-8))
    return [(part - mean) * scale for part in parts]
