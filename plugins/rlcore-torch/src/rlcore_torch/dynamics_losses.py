"""The parts of the loss of probabilistic dynamics models, as pure functions of tensors (Chua et al. 2018)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def scaled(values: Tensor, mean: Tensor, variance: Tensor, least: float) -> Tensor:
    """``values [n, k]`` less ``mean [k]``, in deviations, which are ``least`` at the least."""
    return (values - mean) / variance.sqrt().clamp(min=least)


def bounded(log_variances: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Log variances ``[..., k]`` bent softly into their bounds ``[k]`` (appendix A.1)."""
    # The form in which nothing cancels, in the gradients of the bounds either.
    below = log_variances - functional.softplus(log_variances - high)
    return below + functional.softplus(low - below)


def negative_log_likelihood(squares: Tensor, log_variances: Tensor, beta: float) -> Tensor:
    """``0.5 sum(var^beta (e^2 / var + log var))`` of the squared errors ``[members, n, k]``: ``[members, n, 1]``. No
    gradient flows to the weights ``var^beta``.

    With ``beta`` 0 it is the negative log-likelihood without its constant, halved (equation 1).
    """
    likelihoods = squares * (-log_variances).exp() + log_variances
    if beta:
        likelihoods = likelihoods * (beta * log_variances.detach()).exp()
    return 0.5 * likelihoods.sum(2, keepdim=True)


def end_losses(logits: Tensor, terminated: Tensor) -> Tensor:
    """The cross-entropy of ``terminated [n, 1]``, 0 or 1, under ``logits [members, n, 1]``; of their shape."""
    return functional.binary_cross_entropy_with_logits(logits, terminated.expand_as(logits), reduction="none")


def towards_moments(mean: Tensor, variance: Tensor, values: Tensor) -> Tensor:
    """0, with gradients ``mean - values`` and ``variance - (values - mean)^2`` summed over the rows ``[n, k]``: where
    they are averaged, a step of gradient descent takes running moments by its rate towards those of a minibatch."""
    fixed = mean.detach()
    to_mean = fixed - values
    to_variance = variance.detach() - to_mean.square()
    return torch.dot(to_mean.sum(0), mean - fixed) + torch.dot(to_variance.sum(0), variance - variance.detach())
