"""The parts of losses that learn values from replayed transitions, as pure functions of tensors.

Arguments are ``[n]``, one number for each row, where nothing else is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlcore.batch import DISCOUNTS, REWARDS, WEIGHTS
from rlcore_tf.backend import tf


def squared_or_huber(errors: Any, delta: float | None) -> Any:
    """``e**2 / 2``, from ``delta`` on continued by its tangent, ``delta (|e| - delta / 2)`` (Huber 1964)."""
    if delta is None:
        return 0.5 * tf.square(errors)
    size = tf.abs(errors)
    square = tf.minimum(size, tf.constant(delta, size.dtype))
    return square * (size - 0.5 * square)


def best_actions(q: Any, forbidden: Any) -> Any:
    """The best action of each row of ``q [n, actions]`` that is not ``forbidden`` (bool, alike, or None)."""
    return tf.argmax(q if forbidden is None else tf.where(forbidden, -tf.constant(float("inf"), q.dtype), q), axis=1)


def of_actions(outputs: Any, actions: Any) -> Any:
    """``[n]`` or ``[n, atoms]`` of the actions in ``outputs [n, actions]`` or ``[n, actions, atoms]``."""
    chosen = tf.one_hot(actions, outputs.shape[1], on_value=True, off_value=False, dtype=tf.bool)
    # The other numbers may be infinite: a factor of 0 would make NaN of them.
    if len(outputs.shape) == 3:
        chosen = chosen[:, :, None]
    return tf.reduce_sum(tf.where(chosen, outputs, tf.zeros((), outputs.dtype)), axis=1)


def td_targets(inputs: Mapping[str, Any], successors: Any) -> Any:
    """``r + discount * V``: the discount is 0 where the environment terminated."""
    return inputs[REWARDS] + inputs[DISCOUNTS] * successors


def project(probabilities: Any, inputs: Mapping[str, Any], returns: Any) -> Any:
    """The distribution of ``r + discount * Z`` where Z has these ``probabilities [n, atoms]`` over evenly spaced
    ``returns [atoms]``, projected onto the same returns, ``[n, atoms]`` (Bellemare et al. 2017, algorithm 1).

    What falls between two atoms is shared between them, what falls outside goes to the last one on that side.
    """
    width = returns[1] - returns[0]
    moved = inputs[REWARDS][:, None] + inputs[DISCOUNTS][:, None] * returns
    moved = tf.clip_by_value(moved, returns[0], returns[-1])
    shares = tf.maximum(1.0 - tf.abs(moved[:, :, None] - returns) / width, 0.0)
    return tf.matmul(probabilities[:, None], shares)[:, 0]


def divergence(log_probabilities: Any, targets: Any) -> Any:
    """KL(targets || probabilities) of distributions ``[n, atoms]``; gradients are the cross-entropy's."""
    own = tf.math.xlogy(targets, targets)
    return tf.reduce_sum(own - targets * log_probabilities, axis=1)


def weighted_sum(losses: Any, inputs: Mapping[str, Any]) -> Any:
    """The sum over the rows, each times its importance weight."""
    return tf.reduce_sum(losses * inputs[WEIGHTS])


def dueling(value: Any, advantages: Any) -> Any:
    """``V + A - mean A`` of ``[n, 1, ...]`` and ``[n, actions, ...]`` (Wang et al. 2016, equation 9)."""
    return advantages - tf.reduce_mean(advantages, axis=1, keepdims=True) + value


def expected(logits: Any, returns: Any) -> Any:
    """The means ``[n, actions]`` of distributions over ``returns [atoms]`` by logits ``[n, actions, atoms]``."""
    return tf.linalg.matvec(tf.nn.softmax(logits, axis=2), returns)
