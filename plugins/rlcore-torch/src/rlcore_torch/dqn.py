"""Deep Q-learning (Mnih et al. 2015) and what became of it: double, dueling, n-step, distributional, noisy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import PositiveFloat
from torch import Tensor

from rlcore.acting.q_actor import QActor, QChoice, acting_noise
from rlcore.acting.q_architecture import TARGET_Q, Q, QArchitecture, factorised_noise
from rlcore.acting.q_config import QConfig
from rlcore.acting.q_network import returns_of
from rlcore.batch import ACTIONS, DISCOUNTS, REWARDS, WEIGHTS, SampleBatch
from rlcore.columns import Columns, length, take
from rlcore.model import BatchedModel
from rlcore.optim import Adam, UpdateRule
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
from rlcore.schedule import Schedule
from rlcore_torch import value_losses
from rlcore_torch.backward import Coefficient
from rlcore_torch.columns import Minibatch, shown
from rlcore_torch.inference import ROWS_AT_ONCE
from rlcore_torch.off_policy import NEXT, NEXT_FORBIDDEN, OffPolicyConfig, OffPolicyGraph
from rlcore_torch.q_model import QModel
from rlcore_torch.samples import Samples

#: Draws of the weights' noise, ``[3, noise_size]``: of the values, of the choice of the next action, of the targets.
NOISE = "noise"


class DQNConfig(QConfig, OffPolicyConfig):
    """``double`` chooses the next action by the online network and takes its value from the target (van Hasselt et al.
    2016); without it the target does both."""

    learning_rate: Schedule = 5e-4
    max_grad_norm: PositiveFloat | None = 10.0
    huber_delta: PositiveFloat | None = 1.0
    double: bool = True


class DQN(OffPolicyGraph):
    """``torch.dqn``. Statistics: ``q_loss q_mean loss grad_norm``.

    The temporal difference of a row is ``Q - target``; of a distribution it is the divergence from the target's.
    """

    exploration_utility = "set_epsilon"
    Config: ClassVar[type[GraphConfig]] = DQNConfig
    config: DQNConfig

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
        """Raises ``SpaceError`` for spaces that it cannot see, and for actions that are not Discrete, ``ConfigError``
        for a model that does not fit them, ``UserError`` for a device that is not there."""
        super().__init__(observation_space, action_space, config, rng=rng, devices=devices, model=model)
        own = self.config
        self._architecture = QArchitecture.of(observation_space, action_space, own)
        self._choice = QChoice(observation_space, action_space, own)
        self.lookahead = self._choice.lookahead
        self._model = QModel(observation_space, own, self._architecture)
        self._returns: dict[torch.device, Tensor] = {}
        if own.distribution is not None:
            returns = torch.from_numpy(returns_of(own.distribution))
            self._returns = {device: returns.to(device) for device in self._devices}
        layout = self._model.layout
        recordable = not self._architecture.encoders
        self._begin_with_targets(layout, (0, len(layout)), self._architecture.init(rng), recordable)

    def update_rule(self) -> UpdateRule:
        return Adam(self._learning_rate, self.config.max_grad_norm, epsilon=self.config.adam_epsilon)

    # -- learning

    def pin(self, batch: SampleBatch) -> Pinned[Samples]:
        """Copies of the transitions on every device."""
        return self._transitions(batch, self._model.body, self._choice.mask)

    def _read_actions(self, actions: Columns) -> NDArray[np.int64]:
        return np.asarray(actions, np.int64)

    def _draws(self, rng: np.random.Generator, rows: int) -> dict[str, NDArray[np.float32]]:
        return {}

    def _shared_draws(self, rng: np.random.Generator) -> dict[str, NDArray[np.float32]]:
        size = self._architecture.noise_size
        return {NOISE: factorised_noise(3, size, rng)} if size else {}

    def coefficients(self) -> dict[str, Coefficient]:
        return {"q_loss": Coefficient(1.0), "q_mean": Coefficient()}

    def _totals(self, leaves: Sequence[Tensor], inputs: Minibatch, in_loss: tuple[bool, ...]) -> Tensor:
        online = dict(zip(self._model.names, leaves, strict=True))
        noise = inputs[NOISE].unbind(0) if NOISE in inputs else (None, None, None)
        dtype = leaves[0].dtype
        taken = _of_action(
            self._model(online, Q, self._model.body.read(inputs, dtype), noise[0]), inputs[ACTIONS]
        )
        with torch.no_grad():
            successors = self._model.body.read(inputs, dtype, NEXT)
            after = self._model(inputs, TARGET_Q, successors, noise[2])
            deciding = self._model(online, Q, successors, noise[1]) if self.config.double else after
            best = value_losses.best_actions(self._means(deciding), inputs.get(NEXT_FORBIDDEN))
            after = _of_action(after, best)
        errors, losses, means = self._errors(taken, after, inputs)
        terms = torch.stack([value_losses.weighted_sum(losses, inputs.get(WEIGHTS)), means.sum()])
        return torch.cat([terms, errors.view(-1)])

    def _errors(self, taken: Tensor, after: Tensor, inputs: Minibatch) -> tuple[Tensor, Tensor, Tensor]:
        """The temporal differences, losses and values of the rows, ``[n, 1]``; only losses have a gradient."""
        rewards, discounts = inputs[REWARDS], inputs[DISCOUNTS]
        if not self._returns:
            errors = taken - value_losses.td_targets(rewards, discounts, after)
            losses = value_losses.squared_or_huber(errors, self.config.huber_delta)
            return errors.detach(), losses, taken.detach()
        returns = self._returns[taken.device]
        targets = value_losses.project(after.softmax(1), rewards, discounts, returns)
        log_probabilities = taken.log_softmax(1)
        losses = value_losses.divergence(log_probabilities, targets)
        return losses.detach(), losses, log_probabilities.detach().exp() @ returns[:, None]

    def _means(self, outputs: Tensor) -> Tensor:
        """The values ``[n, actions]``."""
        return value_losses.expected(outputs, self._returns[outputs.device]) if self._returns else outputs[:, :, 0]

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
        """Actions for ``[n, ...]`` observations; without ``explore`` the best ones, without noise.

        ``NoLegalActionError`` where an action mask allows nothing.
        """
        q = self._values(obs, acting_noise(self._architecture, explore, rng))
        return ActOutput(self._choice.choose(q, obs, rows, explore, rng))

    def q_values(self, obs: Columns) -> NDArray[np.float32]:
        """The values of all actions, float32 ``[n, actions]``, without noise."""
        parts = [slice(start, start + ROWS_AT_ONCE) for start in range(0, max(length(obs), 1), ROWS_AT_ONCE)]
        return np.concatenate([self._values(take(obs, part), None) for part in parts])

    @torch.inference_mode()
    def _values(self, obs: Columns, noise: NDArray[np.float32] | None) -> NDArray[np.float32]:
        device = self._devices[0]
        inputs = {name: shown(column, device) for name, column in self._model.columns(obs).items()}
        online = dict(zip(self._model.names, self._parameters.leaves, strict=True))
        read = self._model.body.read(inputs, self._parameters.values.dtype)
        drawn = None if noise is None else torch.from_numpy(noise).to(device)
        return np.asarray(self._means(self._model(online, Q, read, drawn)).cpu().numpy())

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        """Sums rewards over ``n_step`` steps, and adds row ``priorities`` where that is asked for."""
        return self._choice.finish(batch, self.q_values)

    def actor(self) -> Actor | None:
        """The same policy in numpy; None for convolutions and other precisions, which torch has to compute."""
        if self._architecture.encoders or self.config.model.precision != "float32":
            return None
        own = QActor(self.observation_space, self.action_space, self.config.acting_part(), self.get_weights())
        own.set_state({"weights": own.get_weights(), "epsilon": self._choice.epsilon.get_state()})
        return own

    # -- schedules, state

    def on_progress(self, progress: Progress) -> None:
        super().on_progress(progress)
        self._choice.epsilon.advance(progress.env_steps)

    def utilities(self) -> Mapping[str, Callable[..., Any]]:
        """``update_target()``, ``epsilon()``, ``set_epsilon(number or array by slot, or None)``."""
        return {**super().utilities(), **self._choice.utilities()}

    def get_state(self) -> dict[str, Any]:
        """Also ``epsilon``."""
        return {**super().get_state(), "epsilon": self._choice.epsilon.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._choice.epsilon.set_state(state["epsilon"])


def _of_action(outputs: Tensor, actions: Tensor) -> Tensor:
    """``[n, atoms]`` of the actions ``[n, 1]`` in ``outputs [n, actions, atoms]``."""
    return outputs.gather(1, actions[:, :, None].expand(-1, -1, outputs.shape[2]))[:, 0]
