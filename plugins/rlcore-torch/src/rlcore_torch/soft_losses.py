"""The losses of soft actor-critic: of continuous actions (Haarnoja et al. 2018) and discrete ones (Christodoulou 2019).

Entropies are those of actions as numbers from -1 to 1, whatever the bounds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from rlcore.acting.soft import LOG_STD_BOUNDS
from rlcore.batch import ACTIONS
from rlcore.learning.off_policy import NEXT, NEXT_FORBIDDEN, OWN_FORBIDDEN
from rlcore.learning.sac import FORBIDDEN_LOGIT, NEXT_NOISE, NOISE
from rlcore.learning.targets import TARGET
from rlcore_torch.columns import Minibatch
from rlcore_torch.critics import PolicyAndCritics

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class Soft(NamedTuple):
    """``values [critics, n, 1]`` of the actions taken, with gradients to the critics; ``successors [n, 1]``, the soft
    values of the states after; ``policy [n, 1]``, what the policy minimises; ``entropy [n, 1]`` without gradient."""

    values: Tensor
    successors: Tensor
    policy: Tensor
    entropy: Tensor


def gaussian(outputs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Actions from -1 to 1, ``[n, k]``, and their log-probabilities ``[n, 1]``, of ``outputs [n, 2k]`` and normal
    draws ``[n, k]`` (Haarnoja et al. 2018, appendix C)."""
    mean, log_std = outputs.chunk(2, 1)
    log_std = log_std.clamp(*LOG_STD_BOUNDS)
    sample = torch.addcmul(mean, log_std.exp(), noise)
    slopes = 2.0 * (math.log(2.0) - sample - torch.nn.functional.softplus(-2.0 * sample))
    log_probs = noise.square() * -0.5 - log_std - slopes - _HALF_LOG_2PI
    return sample.tanh(), log_probs.sum(1, keepdim=True)


class SoftLoss(ABC):
    """One kind of actions. ``weights`` and targets are as ``PolicyAndCritics`` takes them."""

    def __init__(self, networks: PolicyAndCritics) -> None:
        self._networks = networks

    @abstractmethod
    def __call__(
        self, weights: Mapping[str, Tensor], frozen: Mapping[str, Tensor], alpha: Tensor, inputs: Minibatch
    ) -> Soft:
        """``frozen`` are the weights without gradients, ``alpha`` is the temperature, a scalar without gradient."""


class GaussianLoss(SoftLoss):
    """Actions in a box, ``[n, k]``."""

    def __call__(
        self, weights: Mapping[str, Tensor], frozen: Mapping[str, Tensor], alpha: Tensor, inputs: Minibatch
    ) -> Soft:
        networks = self._networks
        read = networks.body.read(inputs)
        with torch.no_grad():
            after = networks.body.read(inputs, NEXT)
            actions, log_probs = gaussian(networks.policy(weights, "", after), inputs[NEXT_NOISE])
            successors = networks.critics(inputs, TARGET, after, actions, 2).amin(0) - alpha * log_probs
        values = networks.critics(weights, "", read, inputs[ACTIONS], 2)
        actions, log_probs = gaussian(networks.policy(weights, "", read), inputs[NOISE])
        own = networks.critics(frozen, "", read, actions, 2).amin(0)
        return Soft(values, successors, alpha * log_probs - own, -log_probs.detach())


class CategoricalLoss(SoftLoss):
    """Discrete actions, ``[n, 1]``: expectations over them are exact."""

    def __call__(
        self, weights: Mapping[str, Tensor], frozen: Mapping[str, Tensor], alpha: Tensor, inputs: Minibatch
    ) -> Soft:
        networks = self._networks
        read = networks.body.read(inputs)
        with torch.no_grad():
            after = networks.body.read(inputs, NEXT)
            log_probs = _log_probs(networks.policy(weights, "", after), inputs.get(NEXT_FORBIDDEN))
            lowest = networks.critics(inputs, TARGET, after, None, 2).amin(0)
            successors = (log_probs.exp() * (lowest - alpha * log_probs)).sum(1, keepdim=True)
        values = networks.critics(weights, "", read, None, 2)
        log_probs = _log_probs(networks.policy(weights, "", read), inputs.get(OWN_FORBIDDEN))
        probabilities, lowest = log_probs.exp(), values.detach().amin(0)
        policy = (probabilities * (alpha * log_probs - lowest)).sum(1, keepdim=True)
        entropy = -(probabilities * log_probs).detach().sum(1, keepdim=True)
        actions = inputs[ACTIONS].expand(2, -1, -1)
        return Soft(values.gather(2, actions), successors, policy, entropy)


def _log_probs(logits: Tensor, forbidden: Tensor | None) -> Tensor:
    return (logits if forbidden is None else logits.masked_fill(forbidden, FORBIDDEN_LOGIT)).log_softmax(1)
