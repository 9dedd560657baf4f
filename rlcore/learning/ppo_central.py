"""PPO with a critic that sees what all agents see (MAPPO, Yu et al. 2022); policies act upon their own observations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from rlcore.acting.architecture import Architecture
from rlcore.acting.central import CENTRAL_OBS, CentralCriticActor, CentralView, with_central_values
from rlcore.batch import SampleBatch
from rlcore.columns import Columns
from rlcore.errors import ConfigError
from rlcore.learning.ppo import PPOConfig, PPORules
from rlcore.policy_graph import Actor, GraphConfig, OtherAgents, State


class PPOCentralConfig(PPOConfig):
    """``critic_agents`` are the agents whose observations the critic sees, with their spaces: all that the environment
    has, where it says so. It is no setting of a YAML file."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    critic_agents: Mapping[str, gymnasium.Space[Any]] | None = Field(None, exclude=True)


class PPOCentralRules(PPORules):
    """PPO whose values are those of all agents' observations.

    Another agent's observation is that of the same moment; where there is none, zeros and a flag say so
    (:class:`rlcore.acting.central.CentralView`). The values' network is dense, as wide as the policy's hidden layers.
    A framework's class gives ``central_values`` and calls ``_make_view`` before it makes its model.
    """

    Config: ClassVar[type[GraphConfig]] = PPOCentralConfig
    conformance: ClassVar[Mapping[str, Any]] = {
        "config": {"critic_agents": {"0": gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)}}
    }
    config: PPOCentralConfig

    @classmethod
    def settled(cls, config: GraphConfig, agents: Mapping[Any, gymnasium.Space[Any]]) -> GraphConfig:
        assert isinstance(config, PPOCentralConfig)
        if config.critic_agents is not None or not agents:
            return config
        return config.model_copy(update={"critic_agents": {str(agent): space for agent, space in agents.items()}})

    def _make_view(self) -> CentralView:
        """``ConfigError`` where nobody says which agents there are, and for a model that does not fit."""
        own = self.config
        if own.critic_agents is None:
            raise ConfigError(
                "policy.critic_agents: the environment does not say which agents it has (BatchedEnv.agents), so that a "
                "central critic cannot see them; give {agent: observation space} here"
            )
        if own.model.shared_value:
            problem = "a central critic sees more than the policy and shares nothing with it"
            raise ConfigError(f"model.shared_value: {problem}")
        self._view = CentralView(self.observation_space, own.critic_agents, own.model.scale)
        return self._view

    def _policy_architecture(self) -> Architecture:
        own = self.config
        return Architecture.of(self.observation_space, self.action_space, own.model, squash=own.squash, value=False)

    def loss_columns(self) -> tuple[str, ...]:
        return (*super().loss_columns(), CENTRAL_OBS)

    @abstractmethod
    def central_values(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """``[n]``, of what the view makes of rows, ``[n, view.size]``."""

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        """Adds row ``central_obs`` and ``vf_preds`` and cut ``last_value``, then applies rho."""
        rows, lasts = self._view.join(batch, other_agents)
        rho = self.rho()
        return rho(with_central_values(batch, rows, self.central_values(rows), self.central_values(lasts)))

    def values(self, obs: Columns, state: State = ()) -> NDArray[np.float32]:
        """``ConfigError``: an observation alone has no value here."""
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
