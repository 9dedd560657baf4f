"""PlanningActor: acts by planning with an ensemble of learnt dynamics models, without a framework."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt

from rlcore.acting.choice import ChoosingActor, RatedChoice
from rlcore.acting.model_config import ModelConfig
from rlcore.acting.spread import SpreadActing
from rlcore.acting.states import check_state
from rlcore.batch import LAST_STATE, STATE_IN, SampleBatch
from rlcore.columns import Columns, length
from rlcore.planning.architecture import ActionInputs, EnsembleArchitecture
from rlcore.planning.config import CrossEntropyConfig
from rlcore.planning.cross_entropy import cross_entropy
from rlcore.planning.ensemble import SampledEnsemble
from rlcore.planning.following import FollowedByWorkers, FollowedHere, Follower, Following, shares
from rlcore.planning.plans import BoxPlans, DiscretePlans, Plans
from rlcore.policy_graph import ActOutput, ActRows, GraphConfig, OtherAgents, State, Weights
from rlcore.runtime.base import Runtime
from rlcore.schedule import NonNegativeSchedule

#: Where candidates come from that are not to depend on anybody's generator.
_FIXED_SEED = 20180530


class PlanningConfig(GraphConfig):
    """Acting by model-predictive control with an ensemble of ``members`` dynamics models.

    Rewards ahead are discounted by ``gamma``. Within the first ``random_steps`` environment steps actions are drawn
    uniformly. ``noise`` (a schedule of environment steps) is the standard deviation of what is added to continuous
    actions, as a part of half the width of their bounds, and the probability that a discrete one is any other.
    """

    model: ModelConfig = Field(default_factory=ModelConfig)
    members: int = Field(5, ge=1)
    gamma: float = Field(0.99, ge=0.0, le=1.0)
    planner: CrossEntropyConfig = Field(default_factory=CrossEntropyConfig)
    random_steps: NonNegativeInt = 0
    noise: NonNegativeSchedule = 0.0

    @property
    def discount(self) -> float:
        return self.gamma

    def planning_part(self) -> PlanningConfig:
        """The settings of this class alone, in an object that needs no framework."""
        return PlanningConfig(**{name: getattr(self, name) for name in PlanningConfig.model_fields})


def architecture_of(
    observation_space: gymnasium.Space[Any], inputs: ActionInputs, config: PlanningConfig
) -> EnsembleArchitecture:
    """The networks. ``SpaceError`` for observations that cannot be predicted, ``ConfigError`` for a model that does not
    fit."""
    return EnsembleArchitecture.of(observation_space, inputs.size, config.members, config.model)


class PlanningActor(SpreadActing, ChoosingActor):
    """:class:`rlcore.policy_graph.Actor` of ensembles for the graphs of every framework.

    What is left of the last plan is the state of acting. Without exploring, the candidates of every call are made of
    the same numbers, the same for every row. Raises ``SpaceError`` for spaces that it cannot predict or act in,
    ``ConfigError`` for a model of more than dense layers, ``UserError`` for missing weights or wrong shapes.
    """

    _choice: RatedChoice
    _config: PlanningConfig

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: PlanningConfig,
        weights: Weights,
    ) -> None:
        self.inputs = ActionInputs(action_space)
        self.architecture = architecture_of(observation_space, self.inputs, config)
        self._observation_space, self._action_space = observation_space, action_space
        self._gamma = config.gamma
        self._following: Following = FollowedHere(self._follower(range(config.members)))
        scale = self.inputs.scale
        self._plans: Plans = (
            DiscretePlans(config.planner, self.inputs.count)
            if scale is None
            else BoxPlans(config.planner, scale)
        )
        super().__init__(RatedChoice("noise", config.noise), config, self.architecture.shapes(), weights)

    @classmethod
    def begun(
        cls,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: PlanningConfig,
        rng: np.random.Generator,
    ) -> PlanningActor:
        """One with fresh weights."""
        architecture = architecture_of(observation_space, ActionInputs(action_space), config)
        return cls(observation_space, action_space, config, architecture.init(rng))

    def rebuild(self, weights: Weights) -> None:
        self._following.set_weights(weights)

    def sampled_model(self) -> SampledEnsemble:
        """The same dynamics with what they leave open drawn, for rollouts that are learnt from."""
        return SampledEnsemble(self._observation_space, self.inputs, self.architecture, self._weights)

    # -- workers of its own

    def spread(self, runtime: Runtime) -> None:
        """Candidates are followed by ``planner.actors`` workers, where these are any, at most one for each member."""
        self.act_alone()
        if self._config.planner.actors:
            own = shares(self._config.members, self._config.planner.actors)
            self._follow(FollowedByWorkers(runtime, [self._follower(members) for members in own]))

    def act_alone(self) -> None:
        self._following.close()
        self._follow(FollowedHere(self._follower(range(self._config.members))))

    def _follow(self, following: Following) -> None:
        self._following = following
        following.set_weights(self._weights)

    def _follower(self, members: range) -> Follower:
        return Follower(self._observation_space, self._action_space, self.architecture, members, self._gamma)

    def __getstate__(self) -> dict[str, Any]:
        # Workers stay with whoever asked for them.
        return {**self.__dict__, "_following": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._follow(FollowedHere(self._follower(range(self._config.members))))

    # -- acting

    def initial_state(self, n: int) -> State:
        """The plans that episodes begin with, float32 ``[n, horizon, width]``."""
        return (self._plans.initial(n),)

    def act(
        self,
        obs: Columns,
        state: State = (),
        *,
        rows: ActRows | None = None,
        explore: bool = True,
        rng: np.random.Generator,
    ) -> ActOutput:
        """The first actions of the best plans for observations ``[n, ...]``, and what is left of the plans.

        ``UserError`` for a state that does not fit.
        """
        check_state(state, 1, length(obs))
        plan = np.asarray(state[0], np.float32)
        if explore and self._choice.rate.env_steps < self._config.random_steps:
            return ActOutput(self._uniform(length(obs), rng), (plan,))
        noise = (
            functools.partial(self._plans.noise, length(obs), rng)
            if explore
            else functools.partial(self._plans.noise, 1, np.random.default_rng(_FIXED_SEED))
        )
        found = cross_entropy(self._plans, obs, plan, noise, self._following.values)
        actions = self._plans.first(found.center)
        if explore:
            actions = self._with_noise(actions, rows, rng)
        return ActOutput(actions, (self._plans.shifted(found.center),))

    def _uniform(self, n: int, rng: np.random.Generator) -> NDArray[Any]:
        scale = self.inputs.scale
        if scale is None:
            return rng.integers(self.inputs.count, size=n)
        return scale.to_box(rng.uniform(-1.0, 1.0, (n, scale.size)).astype(np.float32))

    def _with_noise(self, actions: NDArray[Any], rows: ActRows | None, rng: np.random.Generator) -> NDArray[Any]:
        noise, scale = np.asarray(self._choice.rate.of(rows), np.float32), self.inputs.scale
        if not noise.any():
            return actions
        if scale is None:
            other = rng.random(len(actions)) < noise
            return np.where(other, rng.integers(self.inputs.count, size=len(actions)), actions)
        unit = scale.to_unit(actions) + noise.reshape(-1, 1) * rng.standard_normal((len(actions), scale.size))
        return scale.to_box(np.clip(unit, -1.0, 1.0).astype(np.float32))

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        """Without the plans, which nothing is learnt from."""
        return without_plans(batch)

    def utilities(self) -> Mapping[str, Callable[..., Any]]:
        """``noise()``, as it stands, ``set_noise(number or array by slot, or None)``, ``set_dynamics(weights)``, and
        ``sampled_model()``, a :class:`rlcore.model.BatchedModel` for rollouts."""
        return {**super().utilities(), "set_dynamics": self.set_weights, "sampled_model": self.sampled_model}


def without_plans(batch: SampleBatch) -> SampleBatch:
    """``batch`` without the states of acting."""
    prefixes = (f"{STATE_IN}.", f"{LAST_STATE}.")
    return SampleBatch(batch.rows, {name: cut for name, cut in batch.cuts.items() if not name.startswith(prefixes)})
