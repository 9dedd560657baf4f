"""What DDPG, TD3 and SAC share: a policy and critics in groups of parameters that move at rates of their own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.acting.critic_architecture import CriticArchitecture
from rlcore.batch import DISCOUNTS, REWARDS, WEIGHTS
from rlcore.columns import Columns
from rlcore.errors import ConfigError, OptimizerError
from rlcore.optim import Adam, UpdateRule
from rlcore_torch import value_losses
from rlcore_torch.columns import Minibatch, shown
from rlcore_torch.critics import PolicyAndCritics
from rlcore_torch.groups import Group, GroupedOptimizer
from rlcore_torch.off_policy import OffPolicyGraph
from rlcore_torch.parameters import Leaf


class CriticTerms:
    """What an update of critics comes to: ``losses`` and ``errors`` by row ``[n, 1]``, and the sum of values."""

    def __init__(self, values: Tensor, targets: Tensor, delta: float | None) -> None:
        """``values [critics, n, 1]`` against ``targets [n, 1]``."""
        found = values.detach()
        self.losses = value_losses.squared_or_huber(values, targets.expand_as(values), delta).sum(0)
        self.errors = (found - targets).abs().mean(0)
        self.mean = found.mean(0)


class OffPolicyActorCritic(OffPolicyGraph):
    """Subclasses make ``_networks`` and say which parts of the parameters are groups."""

    config: Any  # a CriticsConfig, and more
    _networks: PolicyAndCritics

    def _refuse_precision(self) -> None:
        if self.config.model.precision != "float32":
            raise ConfigError("model.precision: this policy graph has no such option")

    def _begin_networks(
        self,
        architecture: CriticArchitecture,
        rng: np.random.Generator,
        *,
        more: Sequence[tuple[Leaf, NDArray[np.float32]]] = (),
        follow_policy: bool,
    ) -> None:
        """Makes networks, targets of the critics and, with ``follow_policy``, of the policy; ``more`` are further
        parameters."""
        self._refuse_precision()
        self._networks = PolicyAndCritics(self.observation_space, self.config.model, architecture)
        layout = [*self._networks.layout, *(leaf for leaf, _ in more)]
        self._leaf_names = [leaf.names[0] for leaf in layout]
        policy, networks = len(self._networks.policy_layout), len(self._networks.layout)
        self._policy_names = frozenset(name for leaf in self._networks.policy_layout for name in leaf.names)
        weights = architecture.init(rng) | {leaf.names[0]: start for leaf, start in more}
        followed = (0, networks) if follow_policy else (policy, networks - policy)
        self._begin_with_targets(layout, followed, weights, self._networks.recordable)

    @abstractmethod
    def _groups(self) -> list[Group]:
        """Of the parameters, which are there by now."""

    def _make_optimizer(self) -> Any:
        self._grouped = GroupedOptimizer(self._groups(), self.config.max_grad_norm)
        return self._grouped

    def _network_groups(self, delay: int = 1) -> list[Group]:
        own, policy, networks = self.config, len(self._networks.policy_layout), len(self._networks.layout)
        rate = own.learning_rate if own.policy_learning_rate is None else own.policy_learning_rate
        return [
            self._group("policy", 0, policy, rate, delay),
            self._group("critics", policy, networks - policy, own.learning_rate),
        ]

    def _group(self, name: str, first: int, leaves: int, rate: Any, delay: int = 1) -> Group:
        rule = Adam(0.0, epsilon=self.config.adam_epsilon)
        return Group(name, self._parameters.part(first, leaves), rule, rate, delay)

    def update_rule(self) -> UpdateRule:
        """``OptimizerError`` where groups of parameters move apart from each other."""
        groups, own = self._groups(), self.config
        apart = {repr((group.learning_rate, group.delay)) for group in groups} != {repr((own.learning_rate, 1))}
        if apart or own.max_grad_norm is not None:
            raise OptimizerError(
                f"{type(self).__name__} moves {', '.join(group.name for group in groups)} apart from each other, by "
                "learning rate, delay or max_grad_norm: no one update rule says how"
            )
        return Adam(self._learning_rate, epsilon=own.adam_epsilon)

    def _update(self, norm: float) -> None:
        self._grouped.step(self._env_steps, self._updates)
        self._copy_to_replicas()
        self._updates += 1

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
        columns = self._networks.body.columns(obs)
        inputs = {name: shown(column, self._devices[0]) for name, column in columns.items()}
        weights = self._by_name(self._parameters.leaves)
        return weights, self._networks.body.read(inputs, self._parameters.values.dtype)

    @torch.inference_mode()
    def _policy_outputs(self, obs: Columns) -> NDArray[np.float32]:
        weights, read = self._seen(obs)
        return np.asarray(self._networks.policy(weights, "", read).cpu().numpy())

    @property
    def acting(self) -> frozenset[str]:
        """The policy's."""
        return self._policy_names
