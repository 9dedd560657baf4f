"""Acting in a bounded Box by a deterministic policy and noise: for DDPG and TD3, in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveInt

from rlcore.acting.architecture import POLICY, refuse_encoders
from rlcore.acting.box_scale import BoxScale
from rlcore.acting.choice import PolicyActor, PolicyChoice, RatedChoice
from rlcore.acting.critic_architecture import CriticArchitecture
from rlcore.acting.exploration import ActionNoise, uniform
from rlcore.acting.masks import mask_for
from rlcore.acting.model_config import ModelConfig
from rlcore.acting.networks import MLP
from rlcore.acting.observations import FlatObs
from rlcore.acting.priorities import with_priorities
from rlcore.batch import SampleBatch
from rlcore.columns import Array, Columns
from rlcore.policy_graph import ActOutput, ActRows, GraphConfig, OtherAgents, State, Weights
from rlcore.returns import n_step
from rlcore.schedule import NonNegativeSchedule

Float32 = NDArray[np.float32]
#: ``(obs [n, ...], actions [n, *shape] or None for the policy's own) -> values [n]``, the lowest of the critics'.
ActionValues = Callable[[Columns, Array | None], Float32]


class DeterministicConfig(GraphConfig):
    """Acting by a deterministic policy.

    ``noise`` (a schedule of environment steps) is the standard deviation of what is added to actions, as a part of half
    the width of their bounds; the sum is clipped to them. ``noise_correlation`` is that between one step and the next
    of an episode. Within the first ``random_steps`` environment steps actions are uniform in the bounds. With
    ``initial_priorities`` whoever samples adds the temporal difference of each row, as a priority to be replayed.
    ``critics`` are one or two, whose lower value counts (Fujimoto et al. 2018).
    """

    model: ModelConfig = Field(default_factory=ModelConfig)
    gamma: float = Field(0.99, ge=0.0, le=1.0)
    n_step: PositiveInt = 1
    noise: NonNegativeSchedule = 0.1
    noise_correlation: float = Field(0.0, ge=0.0, lt=1.0)
    random_steps: NonNegativeInt = 0
    critics: int = Field(1, ge=1, le=2)
    initial_priorities: bool = False

    @property
    def discount(self) -> float:
        return self.gamma

    def acting_part(self) -> DeterministicConfig:
        """The settings of this class alone, in an object that needs no framework."""
        return DeterministicConfig(**{name: getattr(self, name) for name in DeterministicConfig.model_fields})


def architecture_of(
    observation_space: gymnasium.Space[Any], scale: BoxScale, config: DeterministicConfig
) -> CriticArchitecture:
    """The networks. ``SpaceError`` for a space that cannot be seen, ``ConfigError`` for a model that does not fit."""
    return CriticArchitecture.of(
        observation_space,
        config.model,
        policy_outputs=scale.size,
        critics=config.critics,
        action_inputs=scale.size,
    )


class DeterministicChoice(RatedChoice, PolicyChoice):
    """Of a policy's outputs before tanh; its rate is the scale of the noise."""

    scale: BoxScale

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: DeterministicConfig,
    ) -> None:
        """``SpaceError`` for actions that are not in a bounded Box."""
        super().__init__("noise", config.noise)
        self.scale = BoxScale.of(action_space)
        self.mask = mask_for(observation_space, action_space)  # refuses masks, which have nothing to mask here
        self._config = config
        self.lookahead = config.n_step - 1
        self.draws = ActionNoise(config.noise_correlation, self.scale.size)

    def choose(
        self,
        outputs: Float32,
        obs: Columns,
        state: State,
        rows: ActRows | None,
        explore: bool,
        rng: np.random.Generator,
    ) -> ActOutput:
        if not explore:
            return ActOutput(self.scale.to_box(np.tanh(outputs)), state)
        noise, after = self.draws.draw(len(outputs), state, rng)
        if self.rate.env_steps < self._config.random_steps:
            return ActOutput(self.scale.to_box(uniform(noise)), after)
        unit = np.tanh(outputs) + np.asarray(self.rate.of(rows), np.float32).reshape(-1, 1) * noise
        return ActOutput(self.scale.to_box(np.clip(unit, -1.0, 1.0)), after)

    def finish(self, batch: SampleBatch, values: ActionValues) -> SampleBatch:
        """rho: sums of rewards, and priorities where they are asked for."""
        done = self.draws.without_states(n_step(batch, self._config.n_step, self._config.gamma))
        if not self._config.initial_priorities:
            return done
        actions = batch.actions
        assert not isinstance(actions, dict)
        taken, best = values(batch.obs, actions), values(batch.obs, None)
        return with_priorities(done, taken, best, values(batch.last_obs, None))


class DeterministicActor(PolicyActor):
    """:class:`rlcore.policy_graph.Actor` of DDPG and TD3 for the graphs of every framework.

    Raises ``SpaceError`` for spaces that it cannot read or act in, ``ConfigError`` for a model with convolutions or a
    custom one, ``UserError`` for missing weights or wrong shapes.
    """

    _choice: DeterministicChoice

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: DeterministicConfig,
        weights: Weights,
    ) -> None:
        choice = DeterministicChoice(observation_space, action_space, config)
        self._architecture = architecture_of(observation_space, choice.scale, config)
        refuse_encoders(self._architecture)
        self._critic_names = self._architecture.critic_names if config.initial_priorities else ()
        self._flatten = FlatObs(observation_space, config.model.scale)
        shapes = self._architecture.shapes() if config.initial_priorities else self._architecture.policy_shapes()
        super().__init__(choice, config, shapes, weights)

    def rebuild(self, weights: Weights) -> None:
        self._policy = MLP(weights, POLICY, self._architecture.activation)
        self._critics = [MLP(weights, name, self._architecture.activation) for name in self._critic_names]

    def _values(self, obs: Columns, actions: Array | None) -> Float32:
        x, scale = self._flatten(obs), self._choice.scale
        unit = np.tanh(self._policy(x)) if actions is None else scale.to_unit(actions)
        inputs = np.concatenate([x, unit], axis=1)
        return np.asarray(np.minimum.reduce([critic(inputs)[:, 0] for critic in self._critics]))

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        """Sums rewards over ``n_step`` steps, and adds row ``priorities`` where that is asked for."""
        return self._choice.finish(batch, self._values)
