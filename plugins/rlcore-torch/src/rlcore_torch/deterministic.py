"""Deterministic policy gradients: DDPG (Lillicrap et al. 2016) and TD3 (Fujimoto et al. 2018)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.batch import ACTIONS
from rlcore.columns import Array, Columns
from rlcore.learning.deterministic import NOISE, DDPGConfig, DDPGRules, TD3Config
from rlcore.learning.off_policy import NEXT
from rlcore.learning.targets import TARGET
from rlcore.policy_graph import GraphConfig
from rlcore_torch.actor_critic_base import OffPolicyActorCritic
from rlcore_torch.columns import Minibatch


class DDPG(DDPGRules, OffPolicyActorCritic):
    """``torch.ddpg``. Statistics: ``q_loss policy_loss q_mean loss grad_norm``.

    All gradients of an update are taken at the same weights. The temporal difference of a row is the mean over the
    critics of its absolute value.
    """

    config: DDPGConfig

    def _build(self, rng: np.random.Generator) -> None:
        super()._build(rng)
        self._begin_networks(rng, follow_policy=True)

    # -- learning

    def _totals(self, leaves: Sequence[Tensor], inputs: Minibatch, in_loss: tuple[bool, ...]) -> Tensor:
        networks, weights = self._networks, self._by_name(leaves)
        read = networks.body.read(inputs)
        with torch.no_grad():
            after = networks.body.read(inputs, NEXT)
            actions = networks.policy(inputs, TARGET, after).tanh()
            if NOISE in inputs:
                actions = (actions + inputs[NOISE]).clamp(-1.0, 1.0)
            successors = networks.critics(inputs, TARGET, after, actions, self.config.critics).amin(0)
        values = networks.critics(weights, "", read, inputs[ACTIONS], self.config.critics)
        found = self._critic_terms(values, successors, inputs)
        policy_loss = self._policy_loss(weights, read) if in_loss[1] else found.mean.new_zeros(())
        return self._joined([self._weighted(found.losses, inputs), policy_loss, found.mean.sum()], found.errors)

    def _policy_loss(self, weights: Mapping[str, Tensor], read: Mapping[str, Tensor]) -> Tensor:
        """Minus the sum over rows of the first critic's values of the policy's actions."""
        actions = self._networks.policy(weights, "", read).tanh()
        return -self._networks.critics(self._frozen(weights), "", read, actions, 1).sum()

    # -- acting

    @torch.inference_mode()
    def _values(self, obs: Columns, actions: Array | None) -> NDArray[np.float32]:
        weights, read = self._seen(obs)
        if actions is None:
            unit = self._networks.policy(weights, "", read).tanh()
        else:
            unit = torch.from_numpy(self._choice.scale.to_unit(actions)).to(self._devices[0], self._dtype)
        values = self._networks.critics(weights, "", read, unit, self.config.critics).amin(0)
        return np.asarray(values[:, 0].cpu().numpy())


class TD3(DDPG):
    """``torch.td3``: DDPG with the lower of two critics, noise on the targets' actions, and a delayed policy."""

    Config: ClassVar[type[GraphConfig]] = TD3Config
    config: TD3Config
