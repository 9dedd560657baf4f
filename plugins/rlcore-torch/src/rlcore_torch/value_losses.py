"""The parts of losses that learn values from replayed transitions, as pure functions of tensors."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def squared_or_huber(values: Tensor, targets: Tensor, delta: float | None) -> Tensor:
    """``e**2 / 2`` of ``e = values - targets``, from ``delta`` on continued by its tangent, ``delta (|e| - delta / 2)``
    (Huber 1964); of the shape of ``values``. No gradient flows to ``targets``."""
    if delta is None:
        return functional.mse_loss(values, targets, reduction="none") * 0.5
    return functional.huber_loss(values, targets, reduction="none", delta=delta)


def best_actions(q: Tensor, forbidden: Tensor | None) -> Tensor:
    """The best action of each row of ``q [n, actions]`` that is not ``forbidden`` (bool, alike), int64 ``[n, 1]``."""
    return (q if forbidden is None else q.masked_fill(forbidden, -torch.inf)).argmax(1, keepdim=True)


def td_targets(rewards: Tensor, discounts: Tensor, successors: Tensor) -> Tensor:
    """``r + discount * V`` of columns ``[n, 1]``: the discount is 0 where the environment terminated."""
    return torch.addcmul(rewards, discounts, successors)


def project(probabilities: Tensor, rewards: Tensor, discounts: Tensor, returns: Tensor) -> Tensor:
    """The distribution of ``r + discount * Z`` where Z has these ``probabilities [n, atoms]`` over evenly spaced
    ``returns [atoms]``, projected onto the same returns, ``[n, atoms]`` (Bellemare et al. 2017, algorithm 1).

    What falls between two atoms is shared between them, what falls outside goes to the last one on that side.
    """
    width = returns[1] - returns[0]
    moved = torch.clamp(rewards + discounts * returns, returns[0], returns[-1])
    shares = (1.0 - (moved[:, :, None] - returns).abs() / width).clamp(min=0.0)
    return torch.bmm(probabilities[:, None], shares)[:, 0]


def divergence(log_probabilities: Tensor, targets: Tensor) -> Tensor:
    """KL(targets || probabilities) of distributions ``[n, atoms]``, ``[n, 1]``; gradients are the cross-entropy's."""
    own: Tensor = torch.special.xlogy(targets, targets)
    return (own - targets * log_probabilities).sum(1, keepdim=True)


def weighted_sum(losses: Tensor, weights: Tensor | None) -> Tensor:
    """The sum over the rows of ``losses [n, 1]``, each times its importance weight where there are any."""
    return losses.sum() if weights is None else torch.dot(losses.view(-1), weights.view(-1))


def dueling(value: Tensor, advantages: Tensor) -> Tensor:
    """``V + A - mean A`` of ``[n, 1, ...]`` and ``[n, actions, ...]`` (Wang et al. 2016, equation 9)."""
    return advantages - advantages.mean(1, keepdim=True) + value


def expected(logits: Tensor, returns: Tensor) -> Tensor:
    """The means ``[n, actions]`` of distributions over ``returns [atoms]`` by logits ``[n, actions, atoms]``."""
    return functional.softmax(logits, 2) @ returns


def polyak(target: Tensor, online: Tensor, tau: float, times: int = 1) -> None:
    """``target <- (1 - tau) target + tau online`` in place, as if done ``times`` times in a row."""
    if times:
        target.lerp_(online, 1.0 - (1.0 - tau) ** times)
