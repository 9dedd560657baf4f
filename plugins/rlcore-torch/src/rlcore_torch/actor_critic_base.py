"""What DDPG, TD3 and SAC share: a policy and critics in groups of parameters that move at rates of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.batch import DISCOUNTS, REWARDS, WEIGHTS, SampleBatch
from rlcore.columns import Columns
from rlcore.learning.critics import CriticsRules
from rlcore.policy_graph import Pinned
from rlcore_torch import value_losses
from rlcore_torch.columns import Minibatch, in_precision, shown
from rlcore_torch.critics import PolicyAndCritics
from rlcore_torch.groups import GroupedOptimizer
from rlcore_torch.off_policy import OffPolicyGraph
from rlcore_torch.parameters import Leaf
from rlcore_torch.samples import Samples


class CriticTerms:
    """What an update of critics comes to: ``losses`` and ``errors`` by row ``[n, 1]``, and the sum of values."""

    def __init__(self, values: Tensor, targets: Tensor, delta: float | None) -> None:
        """``values [critics, n, 1]`` against ``targets [n, 1]``."""
        found = values.detach()
        self.losses = value_losses.squared_or_huber(values, targets.expand_as(values), delta).sum(0)
        self.errors = (found - targets).abs().mean(0)
        self.mean = found.mean(0)


class OffPolicyActorCritic(CriticsRules, OffPolicyGraph):
    """Rules of :mod:`rlcore.learning` make the architecture and say which parts of the parameters are groups."""

    config: Any  # a CriticsConfig, and more
    _networks: PolicyAndCritics

    def _begin_networks(self, rng: np.random.Generator, *, follow_policy: bool) -> None:
        """Makes networks, targets of the critics and, with ``follow_policy``, of the policy."""
        self._refuse_precision()
        self._networks = PolicyAndCritics(self.observation_space, self.config.model, self._architecture)
        more = self._further_weights()
        layout = [*self._networks.layout, *(Leaf((name,), own.shape, own.shape) for name, own in more.items())]
        self._leaf_names = [leaf.names[0] for leaf in layout]
        policy, networks = len(self._networks.policy_layout), len(self._networks.layout)
        weights = self._architecture.init(rng) | more
        followed = (0, networks) if follow_policy else (policy, networks - policy)
        self._begin_with_targets(layout, followed, weights, self._networks.recordable)

    def _make_optimizer(self) -> Any:
        self._grouped = GroupedOptimizer(self.groups(), self._parameters, self.config.max_grad_norm)
        return self._grouped

    def _update(self, norm: float) -> None:
        self._grouped.step(self._env_steps, self._updates_made)
        self._copy_to_replicas()
        self._updates_made += 1

    def pin(self, batch: SampleBatch) -> Pinned[Samples]:
        """Copies of the transitions on every device."""
        return self._transitions(batch, self._networks.body, self._choice.mask)

    # -- parts of losses

    def _by_name(self, leaves: Sequence[Tensor]) -> dict[str, Tensor]:
        return dict(zip(self._leaf_names, leaves, strict=True))

    @staticmethod
    def _frozen(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The same weights, which no gradient flows to."""
        return {name: tensor.detach() for name, tensor in weights.items()}

    def _critic_terms(self, values: Tensor, successors: Tensor, inputs: Minibatch) -> CriticTerms:
        """Of ``values [critics, n, 1]``, where ``successors [n, 1]`` are what the states after are worth."""
        targets = value_losses.td_targets(inputs[REWARDS], inputs[DISCOUNTS], successors)
        return CriticTerms(values, targets, self.config.huber_delta)

    @staticmethod
    def _joined(terms: Sequence[Tensor], errors: Tensor) -> Tensor:
        return torch.cat([torch.stack(list(terms)), errors.view(-1)])

    @staticmethod
    def _weighted(losses: Tensor, inputs: Minibatch) -> Tensor:
        return value_losses.weighted_sum(losses, inputs.get(WEIGHTS))

    # -- acting

    def _seen(self, obs: Columns) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The weights and the observations ``[n, ...]`` as the networks read them, on the first device."""
        columns = in_precision(self._networks.body.columns(obs), self._dtype)
        inputs = {name: shown(column, self._devices[0]) for name, column in columns.items()}
        weights = self._by_name(self._parameters.leaves)
        return weights, self._networks.body.read(inputs)

    @torch.inference_mode()
    def _policy_outputs(self, obs: Columns) -> NDArray[np.float32]:
        weights, read = self._seen(obs)
        return np.asarray(self._networks.policy(weights, "", read).cpu().numpy())
