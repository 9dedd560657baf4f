"""The parts of the loss of probabilistic dynamics models, as pure functions of tensors (Chua et al. 2018)."""

from __future__ import annotations

from typing import Any

from rlcore_tf.backend import tf


def scaled(values: Any, mean: Any, variance: Any, least: float) -> Any:
    """``values [n, k]`` less ``mean [k]``, in deviations, which are ``least`` at the least."""
    return (values - mean) / tf.maximum(tf.sqrt(variance), least)


def bounded(log_variances: Any, low: Any, high: Any) -> Any:
    """Log variances ``[..., k]`` bent softly into their bounds ``[k]`` (appendix A.1)."""
    # The form in which nothing cancels, in the gradients of the bounds either.
    below = log_variances - tf.math.softplus(log_variances - high)
    return below + tf.math.softplus(low - below)


def negative_log_likelihood(squares: Any, log_variances: Any, beta: float) -> Any:
    """``0.5 sum(var^beta (e^2 / var + log var))`` of the squared errors ``[members, n, k]``: ``[members, n]``. No
    gradient flows to the weights ``var^beta``.

    With ``beta`` 0 it is the negative log-likelihood without its constant, halved (equation 1).
    """
    likelihoods = squares * tf.exp(-log_variances) + log_variances
    if beta:
        likelihoods *= tf.exp(beta * tf.stop_gradient(log_variances))
    return 0.5 * tf.reduce_sum(likelihoods, axis=2)


def end_losses(logits: Any, terminated: Any) -> Any:
    """The cross-entropy of ``terminated [n]``, 0 or 1, under ``logits [members, n]``; of their shape."""
    labels = tf.broadcast_to(terminated, tf.shape(logits))
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)


def towards_moments(mean: Any, variance: Any, values: Any) -> Any:
    """0, with gradients ``mean - values`` and ``variance - (values - mean)^2`` summed over the rows ``[n, k]``: where
    they are averaged, a step of gradient descent takes running moments by its rate towards those of a minibatch."""
    fixed = tf.stop_gradient(mean)
    to_mean = fixed - values
    to_variance = tf.stop_gradient(variance) - tf.square(to_mean)
    of_mean = tf.reduce_sum(tf.reduce_sum(to_mean, axis=0) * (mean - fixed))
    return of_mean + tf.reduce_sum(tf.reduce_sum(to_variance, axis=0) * (variance - tf.stop_gradient(variance)))
