"""The parts of the losses as pure functions of tensors. Which parts a loss has is the business of its policy graph.

Arguments are columns ``[n, 1]``, one row for each sample, and scalars; results are sums over the rows, scalars. A loss
is an average over samples, and sums are what can be added over devices and workers before they are divided.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def policy_gradient(log_probs: Tensor, advantages: Tensor) -> Tensor:
    """Sum of ``log pi(a) * advantage``, to be maximised (Williams 1992)."""
    return torch.dot(log_probs.view(-1), advantages.view(-1))


def surrogate(ratios: Tensor, advantages: Tensor) -> Tensor:
    """Sum of ``ratio * advantage``, to be maximised (Schulman et al. 2015, equation 14)."""
    return torch.dot(ratios.view(-1), advantages.view(-1))


def clipped_surrogate(ratios: Tensor, advantages: Tensor, clip: Tensor) -> Tensor:
    """Sum of ``min(ratio * A, clamp(ratio, 1 - clip, 1 + clip) * A)`` (Schulman et al. 2017, equation 7).

    The second argument matters only as an upper bound of the first: ``(1 + clip) A`` where the advantage is positive,
    ``(1 - clip) A`` where it is negative. Both are ``A + clip |A|``, which no gradient flows through.
    """
    bounds = torch.addcmul(advantages, advantages.abs(), clip)
    return torch.clamp_max(ratios * advantages, bounds).sum()


def advantage_weights(advantages: Tensor, sharpness: Tensor, limit: Tensor) -> Tensor:
    """``min(exp(sharpness * A), exp(limit))`` by row (Wang et al. 2018, equation 4; sharpness: beta / c)."""
    return torch.minimum(advantages * sharpness, limit).exp()


def kl_divergence(log_ratios: Tensor) -> Tensor:
    """Estimates the sum over rows of KL(old || new) from actions of the old policy: ``(r - 1) - log r``.

    Not negative row by row, without bias, and so is its gradient (Schulman 2020, "Approximating KL divergence", k3
    with the roles as here: samples of the old policy, ``r = new / old``).
    """
    return (log_ratios.expm1() - log_ratios).sum()


def cross_entropy(log_probs: Tensor, targets: Tensor) -> Tensor:
    """Minus the sum of ``target * log pi`` over rows and actions, both ``[n, actions]``."""
    return -torch.dot(log_probs.reshape(-1), targets.reshape(-1))


def value_loss(values: Tensor, targets: Tensor) -> Tensor:
    """Sum of ``(V - target)**2``."""
    errors = (values - targets).view(-1)
    return torch.dot(errors, errors)


def clipped_value_loss(values: Tensor, targets: Tensor, old_values: Tensor, clip: float) -> Tensor:
    """Sum of ``max((V - target)**2, (V_old + clamp(V - V_old, -clip, clip) - target)**2)``: an update gains nothing
    from moving a value further than ``clip`` (the ``baselines`` code of Schulman et al. 2017)."""
    clipped = old_values + torch.clamp(values - old_values, -clip, clip)
    return torch.maximum((values - targets).square(), (clipped - targets).square()).sum()


def clip_fraction(ratios: Tensor, clip: Tensor) -> Tensor:
    """The number of rows whose ratio is outside ``[1 - clip, 1 + clip]``."""
    return torch.gt((ratios - 1.0).abs(), clip).sum(dtype=ratios.dtype)


def normalize(parts: Sequence[Tensor]) -> list[Tensor]:
    """Advantages with mean 0 and standard deviation 1 over all ``parts`` together, which may be on several devices.

    The deviation is that of the rows themselves (divided by n). A single row stays as it is.
    """
    alone = len(parts) == 1
    whole = parts[0] if alone else torch.cat([part.to(parts[0].device) for part in parts])
    if len(whole) < 2:
        return list(parts)
    deviation, mean = torch.std_mean(whole, correction=0)
    normalized = (whole - mean).div_(deviation.add_(1e-8))
    shares = [normalized] if alone else torch.split(normalized, [len(part) for part in parts])
    return [share.to(part.device) for share, part in zip(shares, parts, strict=True)]
