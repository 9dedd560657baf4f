"""Soft actor-critic with two critics and a temperature that is learnt (Haarnoja et al. 2018b)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat, PositiveFloat
from torch import Tensor

from rlcore.acting.soft import SoftActor, SoftChoice, SoftConfig
from rlcore.acting.states import check_state
from rlcore.batch import SampleBatch
from rlcore.columns import Columns, length
from rlcore.learning.coefficient import Coefficient
from rlcore.learning.off_policy import CriticsConfig
from rlcore.model import BatchedModel
from rlcore.policy_graph import (
    Actor,
    ActOutput,
    ActRows,
    GraphConfig,
    OtherAgents,
    Pinned,
    Progress,
    State,
)
from rlcore.schedule import NonNegativeSchedule
from rlcore_torch.actor_critic_base import OffPolicyActorCritic
from rlcore_torch.columns import Minibatch
from rlcore_torch.groups import Group
from rlcore_torch.parameters import Leaf
from rlcore_torch.samples import Samples
from rlcore_torch.soft_losses import CategoricalLoss, GaussianLoss, SoftLoss

LOG_ALPHA = "log_alpha"


class SACConfig(SoftConfig, CriticsConfig):
    """``temperature`` is what entropy counts beside rewards; left out it is learnt, from ``initial_temperature`` on at
    ``temperature_learning_rate`` (left out the critics'), such that entropies come to ``target_entropy``. Left out that
    is minus the number of components of an action, of discrete ones ``0.5 log n``; entropies are those of actions from
    -1 to 1, whatever the bounds."""

    learning_rate: NonNegativeSchedule = 3e-4
    temperature: PositiveFloat | None = None
    initial_temperature: PositiveFloat = 1.0
    temperature_learning_rate: NonNegativeSchedule | None = None
    target_entropy: FiniteFloat | None = None


class SAC(OffPolicyActorCritic):
    """``torch.sac``, for actions in a bounded Box and for Discrete ones.

    Statistics: ``q_loss policy_loss temperature_loss q_mean entropy temperature loss grad_norm``. All gradients of an
    update are taken at the same weights. The temporal difference of a row is the mean over the critics of its absolute
    value.
    """

    Config: ClassVar[type[GraphConfig]] = SACConfig
    config: SACConfig

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: GraphConfig,
        *,
        rng: np.random.Generator,
        devices: Sequence[str] = ("cpu",),
        model: BatchedModel | None = None,
    ) -> None:
        """Raises ``SpaceError`` for spaces that it cannot see or act in, ``ConfigError`` for a model that does not fit
        them, ``UserError`` for a device that is not there."""
        super().__init__(observation_space, action_space, config, rng=rng, devices=devices, model=model)
        own = self.config
        self._choice = SoftChoice(observation_space, action_space, own)
        self.lookahead = self._choice.lookahead
        self._architecture = self._choice.architecture(observation_space)
        size = self._architecture.action_inputs
        usual = -float(size) if size else 0.5 * math.log(self._architecture.policy_outputs)
        self._target_entropy = usual if own.target_entropy is None else own.target_entropy
        start = np.float32(math.log(own.initial_temperature))
        learnt = [(Leaf((LOG_ALPHA,), (), ()), np.asarray(start))] if own.temperature is None else []
        self._begin_networks(self._architecture, rng, more=learnt, follow_policy=False)
        self._loss: SoftLoss = GaussianLoss(self._networks, size) if size else CategoricalLoss(self._networks)

    def _groups(self) -> list[Group]:
        own, groups = self.config, self._network_groups()
        if own.temperature is None:
            rate = own.learning_rate if own.temperature_learning_rate is None else own.temperature_learning_rate
            groups.append(self._group("temperature", len(self._networks.layout), 1, rate))
        return groups

    # -- learning

    def pin(self, batch: SampleBatch) -> Pinned[Samples]:
        """Copies of the transitions on every device."""
        return self._transitions(batch, self._networks.body, self._choice.mask)

    def _read_actions(self, actions: Columns) -> NDArray[Any]:
        assert not isinstance(actions, dict)
        scale = self._choice.scale
        return np.asarray(actions, np.int64) if scale is None else scale.to_unit(actions)

    def _draws(self, rng: np.random.Generator, rows: int) -> dict[str, NDArray[np.float32]]:
        return self._loss.draws(rng, rows)

    def coefficients(self) -> dict[str, Coefficient]:
        learnt = 1.0 if self.config.temperature is None else 0.0
        return {
            "q_loss": Coefficient(1.0),
            "policy_loss": Coefficient(1.0),
            "temperature_loss": Coefficient(learnt),
            "q_mean": Coefficient(),
            "entropy": Coefficient(),
            "temperature": Coefficient(),
        }

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
        ]
        return self._joined(terms, found.errors)

    # -- acting

    def act(
        self,
        obs: Columns,
        state: State = (),
        *,
        rows: ActRows | None = None,
        explore: bool = True,
        rng: np.random.Generator,
    ) -> ActOutput:
        """Actions for ``[n, ...]`` observations; without ``explore`` the likeliest, of Gaussians the image of the
        mean. ``NoLegalActionError`` where an action mask allows nothing."""
        check_state(state, self._choice.draws.state_parts, length(obs))
        return self._choice.choose(self._policy_outputs(obs), obs, state, rows, explore, rng)

    def initial_state(self, n: int) -> State:
        """That of correlated noise, else ``()``."""
        return self._choice.draws.initial_state(n)

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        """Sums rewards over ``n_step`` steps."""
        return self._choice.finish(batch)

    def actor(self) -> Actor | None:
        """The same policy in numpy; None for convolutions, which torch has to compute."""
        if self._architecture.encoders:
            return None
        own = SoftActor(
            self.observation_space, self.action_space, self.config.acting_part(), self.get_weights(self.acting)
        )
        own.set_state({"weights": own.get_weights(), "env_steps": self._choice.env_steps})
        return own

    # -- schedules, state

    def on_progress(self, progress: Progress) -> None:
        super().on_progress(progress)
        self._choice.env_steps = progress.env_steps

    def utilities(self) -> Mapping[str, Callable[..., Any]]:
        """``update_target()`` and ``temperature()``, as it stands."""
        return {**super().utilities(), "temperature": self._temperature}

    def _temperature(self) -> float:
        fixed = self.config.temperature
        return math.exp(float(self._parameters.weights[LOG_ALPHA])) if fixed is None else fixed

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._choice.env_steps = self._env_steps
