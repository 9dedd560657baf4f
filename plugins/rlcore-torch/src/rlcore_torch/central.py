"""PPO with a critic that sees what all agents see (MAPPO, Yu et al. 2022); policies act upon their own observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ConfigDict, Field
from torch import Tensor

from rlcore.acting import Architecture
from rlcore.acting.architecture import VALUE
from rlcore.acting.central import (
    CENTRAL_OBS,
    CentralCriticActor,
    CentralView,
    critic_shapes,
    init_critic,
    with_central_values,
)
from rlcore.acting.networks import layer_names
from rlcore.batch import SampleBatch
from rlcore.columns import Columns
from rlcore.errors import ConfigError
from rlcore.learning.ppo import PPOConfig
from rlcore.policy_graph import Actor, GraphConfig, OtherAgents, State, Weights
from rlcore_torch.body import leaf_of, linear
from rlcore_torch.columns import Minibatch, shown
from rlcore_torch.model import Heads, Model
from rlcore_torch.models import model_for
from rlcore_torch.ppo import PPO


class PPOCentralConfig(PPOConfig):
    """``critic_agents`` are the agents whose observations the critic sees, with their spaces: all that the environment
    has, where it says so. It is no setting of a YAML file."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    critic_agents: Mapping[str, gymnasium.Space[Any]] | None = Field(None, exclude=True)


class PPOCentral(PPO):
    """``torch.ppo_central``: :class:`~rlcore_torch.ppo.PPO` whose values are those of all agents' observations.

    Another agent's observation is that of the same moment; where there is none, zeros and a flag say so
    (:class:`rlcore.acting.central.CentralView`). The values' network is dense, as wide as the policy's hidden layers.
    """

    Config: ClassVar[type[GraphConfig]] = PPOCentralConfig
    conformance: ClassVar[Mapping[str, Any]] = {
        "config": {"critic_agents": {"0": gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)}}
    }
    config: PPOCentralConfig
    _model: CentralModel

    @classmethod
    def settled(cls, config: GraphConfig, agents: Mapping[Any, gymnasium.Space[Any]]) -> GraphConfig:
        assert isinstance(config, PPOCentralConfig)
        if config.critic_agents is not None or not agents:
            return config
        return config.model_copy(update={"critic_agents": {str(agent): space for agent, space in agents.items()}})

    def _make_model(self, rng: np.random.Generator) -> CentralModel:
        own = self.config
        if own.critic_agents is None:
            raise ConfigError(
                "policy.critic_agents: the environment does not say which agents it has (BatchedEnv.agents), so that a "
                "central critic cannot see them; give {agent: observation space} here"
            )
        if own.model.shared_value:
            raise ConfigError("model.shared_value: a central critic sees more than the policy: it shares nothing")
        self._view = CentralView(self.observation_space, own.critic_agents, own.model.scale)
        inner = model_for(self.observation_space, self.action_space, own.model, squash=own.squash, value=False, rng=rng)
        architecture = Architecture.of(
            self.observation_space, self.action_space, own.model, squash=own.squash, value=False
        )
        return CentralModel(inner, architecture, self._view.size)

    def loss_columns(self) -> tuple[str, ...]:
        return (*super().loss_columns(), CENTRAL_OBS)

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        """Adds row ``central_obs`` and ``vf_preds`` and cut ``last_value``, then applies rho."""
        rows, lasts = self._view.join(batch, other_agents)
        rho = self.rho()
        return rho(with_central_values(batch, rows, self._values_of(rows), self._values_of(lasts)))

    @torch.inference_mode()
    def _values_of(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        values = self._model.values(self._parameters.leaves, shown(features, self._devices[0]))
        return np.asarray(values[:, 0].cpu().numpy())

    def values(self, obs: Columns, state: State = ()) -> NDArray[np.float32]:
        """The values of observations ``[n, ...]`` of an agent that knows of no other, float32 ``[n]``."""
        raise ConfigError("values of a central critic are of what all agents see: postprocess computes them")

    def actor(self) -> Actor | None:
        own = self.config
        if not self._acts_in_numpy():
            return None
        return CentralCriticActor(
            self.observation_space,
            self.action_space,
            own.model,
            self.get_weights(),
            self._view,
            squash=own.squash,
            rho=self.rho(),
        )


class CentralModel(Model):
    """A policy's model without values, and beside it a dense network for values of the column ``central_obs``."""

    def __init__(self, policy: Model, architecture: Architecture, inputs: int) -> None:
        self._policy = policy
        self._critic_shapes = critic_shapes(architecture, inputs)
        self._hidden = layer_names(VALUE, len(architecture.hidden))[:-1]
        self._activation = torch.relu if architecture.activation == "relu" else torch.tanh
        self.layout = [*policy.layout, *(leaf_of(name, shape) for name, shape in self._critic_shapes.items())]
        self.constant = policy.constant
        self.recurrent = policy.recurrent
        self.recordable = policy.recordable
        self.rows_at_once = policy.rows_at_once

    def init(self, rng: np.random.Generator, log_std: float) -> Weights:
        return self._policy.init(rng, log_std) | init_critic(self._critic_shapes, rng)

    def columns(self, obs: Columns) -> dict[str, NDArray[Any]]:
        return self._policy.columns(obs)

    def initial_state(self, n: int) -> State:
        return self._policy.initial_state(n)

    def __call__(self, leaves: Sequence[Tensor], inputs: Minibatch) -> Heads:
        heads = self._policy(leaves[: len(self._policy.layout)], inputs)
        if CENTRAL_OBS not in inputs:  # acting
            return heads
        return heads._replace(values=self.values(leaves, inputs[CENTRAL_OBS]))

    def values(self, leaves: Sequence[Tensor], features: Tensor) -> Tensor:
        """``[n, 1]`` of ``features [n, inputs]``."""
        weights = dict(zip(self._critic_shapes, leaves[len(self._policy.layout) :], strict=True))
        x = features
        for name in self._hidden:
            x = self._activation(linear(weights, name, x))
        return linear(weights, f"{VALUE}.out", x)
