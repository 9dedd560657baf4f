"""Acting in a bounded Box by a deterministic policy and noise: for DDPG and TD3, in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, NonNegativeInt, PositiveInt

from rlcore.acting.architecture import POLICY, refuse_encoders
from rlcore.acting.box_scale import BoxScale
from rlcore.acting.critic_architecture import CriticArchitecture
from rlcore.acting.exploration import ActionNoise, ExplorationRate, uniform
from rlcore.acting.masks import mask_for
from rlcore.acting.model_config import ModelConfig
from rlcore.acting.networks import MLP
from rlcore.acting.observations import FlatObs
from rlcore.acting.priorities import with_priorities
from rlcore.acting.states import check_state
from rlcore.acting.weighted import WeightedActor
from rlcore.batch import SampleBatch
from rlcore.columns import Array, Columns
from rlcore.policy_graph import (
    ActOutput,
    ActRows,
    GraphConfig,
    OtherAgents,
    Progress,
    State,
    Weights,
)
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


class DeterministicChoice:
    """How a policy's outputs become actions and rows become transitions: the part that no framework computes."""

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: DeterministicConfig,
    ) -> None:
        """``SpaceError`` for actions that are not in a bounded Box."""
        self.scale = BoxScale.of(action_space)
        mask_for(observation_space, action_space)  # refuses masks, which have nothing to mask here
        self._config = config
        self.noise = ExplorationRate(config.noise)
        self.draws = ActionNoise(config.noise_correlation, self.scale.size)

    @property
    def lookahead(self) -> int:
        """Rows that sums over several steps need."""
        return self._config.n_step - 1

    def choose(
        self, outputs: Float32, state: State, rows: ActRows | None, explore: bool, rng: np.random.Generator
    ) -> ActOutput:
        """Actions ``[n, *shape]`` of the policy's outputs before tanh, ``[n, k]``, and the noise's state."""
        if not explore:
            return ActOutput(self.scale.to_box(np.tanh(outputs)), state)
        noise, after = self.draws.draw(len(outputs), state, rng)
        if self.noise.env_steps < self._config.random_steps:
            return ActOutput(self.scale.to_box(uniform(noise)), after)
        unit = np.tanh(outputs) + np.asarray(self.noise.of(rows), np.float32).reshape(-1, 1) * noise
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

    def utilities(self) -> Mapping[str, Callable[..., Any]]:
        """``noise()``, the scale as it stands, and ``set_noise(number or array by slot, or None)``."""
        return {"noise": self._noise, "set_noise": self._set_noise}

    def _noise(self) -> float | NDArray[np.float64]:
        now = self.noise.now()
        return now.copy() if now.ndim else float(now)

    def _set_noise(self, value: ArrayLike | None) -> None:
        self.noise.set(value)


class DeterministicActor(WeightedActor):
    """:class:`rlcore.policy_graph.Actor` of DDPG and TD3 for the graphs of every framework.

    Raises ``SpaceError`` for spaces that it cannot read or act in, ``ConfigError`` for a model with convolutions or a
    custom one, ``UserError`` for missing weights or wrong shapes.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: DeterministicConfig,
        weights: Weights,
    ) -> None:
        self._choice = DeterministicChoice(observation_space, action_space, config)
        self._architecture = architecture_of(observation_space, self._choice.scale, config)
        refuse_encoders(self._architecture)
        self._config = config
        self.lookahead = self._choice.lookahead
        self._flatten = FlatObs(observation_space, config.model.scale)
        shapes = self._architecture.shapes() if config.initial_priorities else self._architecture.policy_shapes()
        super().__init__(shapes, weights)

    def describe(self) -> dict[str, Any]:
        """What makes an actor that acts the same, beside spaces and weights, as plain JSON."""
        return {"config": self._config.model_dump(mode="json")}

    def rebuild(self, weights: Weights) -> None:
        self._policy = MLP(weights, POLICY, self._architecture.activation)
        names = self._architecture.critic_names if self._config.initial_priorities else ()
        self._critics = [MLP(weights, name, self._architecture.activation) for name in names]

    def initial_state(self, n: int) -> State:
        """That of correlated noise, else ``()``."""
        return self._choice.draws.initial_state(n)

    def act(
        self,
        obs: Columns,
        state: State = (),
        *,
        rows: ActRows | None = None,
        explore: bool = True,
        rng: np.random.Generator,
    ) -> ActOutput:
        """Actions for observations ``[n, ...]``; without ``explore`` the policy's own."""
        x = self._flatten(obs)
        check_state(state, self._choice.draws.state_parts, len(x))
        return self._choice.choose(self._policy(x), state, rows, explore, rng)

    def _values(self, obs: Columns, actions: Array | None) -> Float32:
        x, scale = self._flatten(obs), self._choice.scale
        unit = np.tanh(self._policy(x)) if actions is None else scale.to_unit(actions)
        inputs = np.concatenate([x, unit], axis=1)
        return np.asarray(np.minimum.reduce([critic(inputs)[:, 0] for critic in self._critics]))

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        """Sums rewards over ``n_step`` steps, and adds row ``priorities`` where that is asked for."""
        return self._choice.finish(batch, self._values)

    def on_progress(self, progress: Progress) -> None:
        """The schedule of the noise goes by the environment steps."""
        self._choice.noise.advance(progress.env_steps)

    def utilities(self) -> Mapping[str, Callable[..., Any]]:
        return self._choice.utilities()

    def get_state(self) -> dict[str, Any]:
        """``weights`` and ``noise``."""
        return {**super().get_state(), "noise": self._choice.noise.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._choice.noise.set_state(state["noise"])
