"""Acting by a policy whose spread depends on the observation: for soft actor-critic, in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveInt

from rlcore.acting.architecture import POLICY, refuse_encoders
from rlcore.acting.box_scale import BoxScale
from rlcore.acting.choice import PolicyActor, PolicyChoice
from rlcore.acting.critic_architecture import CriticArchitecture
from rlcore.acting.distributions import Categorical
from rlcore.acting.exploration import ActionNoise, uniform
from rlcore.acting.masks import mask_for
from rlcore.acting.model_config import ModelConfig
from rlcore.acting.networks import MLP
from rlcore.acting.observations import FlatObs
from rlcore.acting.q_architecture import discrete_actions
from rlcore.batch import SampleBatch
from rlcore.columns import Columns
from rlcore.errors import ConfigError
from rlcore.policy_graph import ActOutput, ActRows, GraphConfig, OtherAgents, State, Weights
from rlcore.returns import n_step

Float32 = NDArray[np.float32]

#: Bounds of log standard deviations (the code of Haarnoja et al. 2018).
LOG_STD_BOUNDS = (-20.0, 2.0)


class SoftConfig(GraphConfig):
    """Acting by a stochastic policy: uniformly within the first ``random_steps`` environment steps.

    ``noise_correlation`` is that between what is drawn at one step of an episode and the next, of continuous actions.
    """

    model: ModelConfig = Field(default_factory=ModelConfig)
    gamma: float = Field(0.99, ge=0.0, le=1.0)
    n_step: PositiveInt = 1
    random_steps: NonNegativeInt = 0
    noise_correlation: float = Field(0.0, ge=0.0, lt=1.0)

    @property
    def discount(self) -> float:
        return self.gamma

    def acting_part(self) -> SoftConfig:
        """The settings of this class alone, in an object that needs no framework."""
        return SoftConfig(**{name: getattr(self, name) for name in SoftConfig.model_fields})


class SoftChoice(PolicyChoice):
    """Of a stochastic policy's outputs.

    In a bounded Box these are means and log standard deviations ``[n, 2k]`` of a Gaussian before tanh; of
    Discrete actions they are logits ``[n, actions]``.
    """

    def __init__(
        self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any], config: SoftConfig
    ) -> None:
        """``SpaceError`` for actions that are neither Discrete nor in a bounded Box, ``ConfigError`` where discrete
        ones should be correlated."""
        self._config = config
        self.discrete = isinstance(action_space, gymnasium.spaces.Discrete)
        self.scale = None if self.discrete else BoxScale.of(action_space)
        self._categorical = Categorical(discrete_actions(action_space)) if self.discrete else None
        if self.discrete and config.noise_correlation:
            raise ConfigError("policy.noise_correlation: discrete actions are drawn without noise")
        self.draws = ActionNoise(config.noise_correlation, 0 if self.scale is None else self.scale.size)
        self.mask = mask_for(observation_space, action_space)
        self.lookahead = config.n_step - 1
        self._env_steps = 0

    def architecture(self, observation_space: gymnasium.Space[Any]) -> CriticArchitecture:
        """The networks. ``SpaceError`` for a space that cannot be seen, ``ConfigError`` for a model that does not
        fit."""
        if self._categorical is not None:
            actions = self._categorical.outputs
            sizes = {"policy_outputs": actions, "action_inputs": 0, "critic_outputs": actions}
        else:
            assert self.scale is not None
            sizes = {"policy_outputs": 2 * self.scale.size, "action_inputs": self.scale.size}
        return CriticArchitecture.of(observation_space, self._config.model, critics=2, **sizes)

    def choose(
        self,
        outputs: Float32,
        obs: Columns,
        state: State,
        rows: ActRows | None,
        explore: bool,
        rng: np.random.Generator,
    ) -> ActOutput:
        at_random = explore and self._env_steps < self._config.random_steps
        if self._categorical is not None:
            logits = np.zeros_like(outputs) if at_random else outputs
            if self.mask is not None:
                logits = self._categorical.masked(logits, self.mask.legal(obs, rows))
            drawn = self._categorical.draw(logits, rng) if explore else self._categorical.mode(logits)
            return ActOutput(drawn.actions)
        assert self.scale is not None
        mean, log_std = np.split(outputs, 2, axis=1)
        if not explore:
            return ActOutput(self.scale.to_box(np.tanh(mean)), state)
        noise, after = self.draws.draw(len(mean), state, rng)
        if at_random:
            return ActOutput(self.scale.to_box(uniform(noise)), after)
        sample = mean + np.exp(np.clip(log_std, *LOG_STD_BOUNDS)) * noise
        return ActOutput(self.scale.to_box(np.tanh(sample)), after)

    def finish(self, batch: SampleBatch) -> SampleBatch:
        """rho: sums of rewards."""
        return self.draws.without_states(n_step(batch, self._config.n_step, self._config.gamma))

    def advance(self, env_steps: int) -> None:
        self._env_steps = env_steps

    def utilities(self) -> Mapping[str, Callable[..., Any]]:
        """None: how much is explored is learnt."""
        return {}

    def get_state(self) -> dict[str, Any]:
        """``env_steps``."""
        return {"env_steps": self._env_steps}

    def set_state(self, state: Mapping[str, Any]) -> None:
        self._env_steps = int(state["env_steps"])


class SoftActor(PolicyActor):
    """:class:`rlcore.policy_graph.Actor` of soft actor-critic for the graphs of every framework.

    Raises ``SpaceError`` for spaces that it cannot read or act in, ``ConfigError`` for a model with convolutions or a
    custom one, ``UserError`` for missing weights or wrong shapes.
    """

    _choice: SoftChoice

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: SoftConfig,
        weights: Weights,
    ) -> None:
        choice = SoftChoice(observation_space, action_space, config)
        architecture = choice.architecture(observation_space)
        refuse_encoders(architecture)
        self._activation = architecture.activation
        self._flatten = FlatObs(observation_space, config.model.scale)
        super().__init__(choice, config, architecture.policy_shapes(), weights)

    def rebuild(self, weights: Weights) -> None:
        self._policy = MLP(weights, POLICY, self._activation)

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        """Sums rewards over ``n_step`` steps."""
        return self._choice.finish(batch)
