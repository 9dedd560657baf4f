"""Soft actor-critic with two critics and a temperature that is learnt (Haarnoja et al. 2018b)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

from rlcore.learning.sac import LOG_ALPHA, SACConfig, SACRules
from rlcore_torch.actor_critic_base import OffPolicyActorCritic
from rlcore_torch.columns import Minibatch
from rlcore_torch.soft_losses import CategoricalLoss, GaussianLoss, SoftLoss


class SAC(SACRules, OffPolicyActorCritic):
    """``torch.sac``, for actions in a bounded Box and for Discrete ones.

    Statistics: ``q_loss policy_loss temperature_loss q_mean entropy temperature loss grad_norm``. All gradients of an
    update are taken at the same weights. The temporal difference of a row is the mean over the critics of its absolute
    value.
    """

    config: SACConfig

    def _build(self, rng: np.random.Generator) -> None:
        super()._build(rng)
        self._begin_networks(rng, follow_policy=False)
        self._loss: SoftLoss = GaussianLoss(self._networks) if self._size else CategoricalLoss(self._networks)

    # -- learning

    def _totals(self, leaves: Sequence[Tensor], inputs: Minibatch, in_loss: tuple[bool, ...]) -> Tensor:
        weights = self._by_name(leaves)
        frozen, fixed = self._frozen(weights), self.config.temperature
        alpha = frozen[LOG_ALPHA].exp() if fixed is None else leaves[0].new_full((), fixed)
        soft = self._loss(weights, frozen, alpha, inputs)
        found = self._critic_terms(soft.values, soft.successors, inputs)
        entropy, rows = soft.entropy.sum(), len(soft.entropy)
        excess = entropy - rows * self._target_entropy
        terms = [
            self._weighted(found.losses, inputs),
            soft.policy.sum(),
            weights[LOG_ALPHA] * excess if fixed is None else excess * 0.0,
            found.mean.sum(),
            entropy,
            alpha * rows,
            *self._more_terms(weights, inputs),
        ]
        return self._joined(terms, found.errors)

    def _more_terms(self, weights: Mapping[str, Tensor], inputs: Minibatch) -> list[Tensor]:
        """What the rules of a class derived from this name beside the terms of this one."""
        return []
