"""LinearQ: Q-learning with values linear in the observation, in plain numpy: the smallest graph that learns by replay.

Mnih et al. 2015 for the target network, van Hasselt et al. 2016 for the double estimate.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat

from rlcore.acting import FlatObs, mask_for
from rlcore.batch import DISCOUNTS, REWARDS, WEIGHTS, SampleBatch
from rlcore.columns import Columns, length
from rlcore.errors import NonFiniteError, SpaceError, UserError
from rlcore.model import BatchedModel
from rlcore.optim import Adam, UpdateRule, all_finite, global_norm
from rlcore.policy_graph import (
    ActOutput,
    ActRows,
    GradientOutput,
    GraphConfig,
    OtherAgents,
    Pinned,
    PolicyGraph,
    Progress,
    State,
    Weights,
    call_utility,
    check_gradients,
    check_weights,
)
from rlcore.returns import as_transitions, n_step
from rlcore.schedule import NonNegativeSchedule, value_at

WEIGHT, BIAS = "q.out.weight", "q.out.bias"
TARGET = "target_"

Float32 = NDArray[np.float32]


class LinearQConfig(GraphConfig):
    """Settings of ``numpy.q``. ``epsilon`` is the share of random actions, by environment steps.

    The target is replaced every ``target_every`` environment steps.
    """

    learning_rate: NonNegativeSchedule = 0.02
    gamma: float = Field(0.99, ge=0.0, le=1.0)
    n_step: int = Field(1, ge=1)
    epsilon: NonNegativeSchedule = 0.2
    target_every: int = Field(100, ge=1)
    max_grad_norm: PositiveFloat | None = 10.0

    @property
    def discount(self) -> float:
        return self.gamma


class LinearQActor:
    """The action of the greatest ``features @ weight + bias``, or with probability epsilon any."""

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: LinearQConfig,
        weights: Weights,
    ) -> None:
        if not isinstance(action_space, gymnasium.spaces.Discrete):
            raise SpaceError(f"linear Q-learning acts in Discrete spaces only, not in {action_space}")
        self.lookahead = config.n_step - 1
        self._flatten = FlatObs(observation_space)
        self._mask = mask_for(observation_space, action_space)
        self._choices = int(action_space.n)
        self._schedule = config.epsilon
        self._epsilon: float | NDArray[np.float64] = value_at(config.epsilon, 0)
        self._is_set = False
        self._rho = functools.partial(n_step, n=config.n_step, gamma=config.gamma)
        self._weights: Weights = {}
        self.set_weights(weights)

    def features(self, obs: Columns) -> Float32:
        """float32 ``[n, features]`` from observations ``[n, ...]``."""
        return self._flatten(obs)

    def values(self, features: Float32) -> Float32:
        """The value of every action, ``[n, choices]``."""
        return np.asarray(features @ self._weights[WEIGHT] + self._weights[BIAS], np.float32)

    def allowed(self, obs: Columns) -> NDArray[np.bool_]:
        """What the action masks in observations ``[n, ...]`` allow, ``[n, choices]``."""
        return np.ones((length(obs), self._choices), np.bool_) if self._mask is None else self._mask.read(obs)

    def initial_state(self, n: int) -> State:
        """``()``: there is no recurrent state."""
        return ()

    def act(
        self,
        obs: Columns,
        state: State = (),
        *,
        rows: ActRows | None = None,
        explore: bool = True,
        rng: np.random.Generator,
    ) -> ActOutput:
        """Actions for observations ``[n, ...]``; without ``explore`` the best.

        ``NoLegalActionError`` where an action mask allows nothing.
        """
        allowed = self.allowed(obs) if self._mask is None else self._mask.legal(obs, rows)
        actions = best(self.values(self.features(obs)), allowed)
        if explore:
            epsilon = self._epsilon
            if rows is not None and isinstance(epsilon, np.ndarray):
                epsilon = epsilon[rows.slot]
            random = rng.random(len(actions)) < epsilon
            actions = np.where(random, best(rng.random(allowed.shape), allowed), actions)
        return ActOutput(actions)

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        """Rewards summed over n steps, and the discounts of what follows."""
        return self._rho(batch)

    def on_progress(self, progress: Progress) -> None:
        """Epsilon goes by the environment steps, until it has been set."""
        if not self._is_set:
            self._epsilon = value_at(self._schedule, progress.env_steps)

    def set_epsilon(self, epsilon: float | NDArray[np.float64]) -> None:
        """From now on this one, for all slots or by slot."""
        self._epsilon, self._is_set = epsilon, True

    def call(self, utility: str, *args: Any) -> Any:
        """Utility ``set_epsilon``."""
        return call_utility(self, {"set_epsilon": self.set_epsilon}, utility, args)

    def set_weights(self, weights: Weights) -> None:
        """Copies the named weights."""
        if self._weights:
            check_weights(self._weights, weights)
        self._weights = {**self._weights, **{name: np.array(array, np.float32) for name, array in weights.items()}}

    def get_state(self) -> dict[str, Any]:
        """``{"weights": {name: array}}``, and epsilon."""
        weights = {name: array.copy() for name, array in self._weights.items()}
        return {"weights": weights, "epsilon": self._epsilon, "epsilon_is_set": self._is_set}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from what ``get_state`` gave."""
        self.set_weights(state["weights"])
        self._epsilon, self._is_set = state["epsilon"], bool(state["epsilon_is_set"])


def best(values: NDArray[Any], allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The number of the greatest of the ``values`` ``[n, choices]`` that are allowed, int64 ``[n]``."""
    return np.asarray(np.where(allowed, values, -np.inf).argmax(axis=1), np.int64)


class _Transitions(NamedTuple):
    """``features`` and ``successors`` ``[n, f]``, ``allowed`` next ``[n, choices]``, the rest ``[n]``."""

    features: Float32
    actions: NDArray[np.int64]
    rewards: Float32
    discounts: Float32
    successors: Float32
    allowed: NDArray[np.bool_]
    weights: Float32

    def rows(self, units: NDArray[np.int64]) -> _Transitions:
        """Those at ``units``."""
        return _Transitions._make(column[units] for column in self)


class LinearQ(PolicyGraph):
    """``numpy.q``: for Discrete actions. Statistics: ``loss q grad_norm``.

    Weights: ``q.out.weight [features, choices]`` and ``q.out.bias``, zero at first, and the target's,
    ``target_q.out.weight`` and ``target_q.out.bias``.
    """

    exploration_utility = "set_epsilon"
    Config = LinearQConfig
    config: LinearQConfig

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
        super().__init__(observation_space, action_space, config, rng=rng, devices=devices, model=model)
        if any(device != "cpu" for device in devices):
            raise UserError(f"numpy computes on cpu only, not on {', '.join(devices)}")
        if not isinstance(action_space, gymnasium.spaces.Discrete):
            raise SpaceError(f"linear Q-learning acts in Discrete spaces only, not in {action_space}")
        size, choices = FlatObs(observation_space).size, int(action_space.n)
        online = {WEIGHT: np.zeros((size, choices), np.float32), BIAS: np.zeros(choices, np.float32)}
        self._weights: Weights = {**online, **{TARGET + name: array.copy() for name, array in online.items()}}
        self.lookahead = self.config.n_step - 1
        self._env_steps = 0
        self._optimizer = self.update_rule().init(online)
        self._actor = self.actor()

    # -- acting

    def actor(self) -> LinearQActor:
        """The same policy without what learning needs."""
        own = {name: self._weights[name] for name in (WEIGHT, BIAS)}
        return LinearQActor(self.observation_space, self.action_space, self.config, own)

    def act(
        self,
        obs: Columns,
        state: State = (),
        *,
        rows: ActRows | None = None,
        explore: bool = True,
        rng: np.random.Generator,
    ) -> ActOutput:
        return self._actor.act(obs, state, rows=rows, explore=explore, rng=rng)

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        return self._actor.postprocess(batch, other_agents)

    # -- learning

    def pin(self, batch: SampleBatch) -> Pinned[_Transitions]:
        """The features of the observations and of their successors, and what the loss reads beside them."""
        if batch.pieces != len(batch):
            batch = as_transitions(batch)
        weights = batch.rows.get(WEIGHTS)
        samples = _Transitions(
            self._actor.features(batch.obs),
            batch["actions"],
            batch[REWARDS],
            batch[DISCOUNTS],
            self._actor.features(batch.last_obs),
            self._actor.allowed(batch.last_obs),
            np.ones(len(batch), np.float32) if weights is None else weights,
        )
        return Pinned(samples, len(batch))

    def gradients(
        self, batch: SampleBatch | Pinned[_Transitions], units: NDArray[np.int64] | None = None
    ) -> GradientOutput:
        """Of the mean of ``weight * 0.5 * (r + discount * target_q(s', argmax q(s')) - q(s, a)) ** 2``."""
        samples = (batch if isinstance(batch, Pinned) else self.pin(batch)).held
        if units is not None:
            samples = samples.rows(units)
        count = len(samples.rewards)
        if count == 0:
            raise UserError("there is no sample to learn from")
        rows = np.arange(count)
        greedy = best(self._actor.values(samples.successors), samples.allowed)
        later = samples.successors @ self._weights[TARGET + WEIGHT] + self._weights[TARGET + BIAS]
        values = self._actor.values(samples.features)[rows, samples.actions]
        td_error = values - (samples.rewards + samples.discounts * later[rows, greedy])
        slopes = np.zeros((count, later.shape[1]), np.float32)
        slopes[rows, samples.actions] = samples.weights * td_error / count
        gradients = {WEIGHT: samples.features.T @ slopes, BIAS: slopes.sum(0)}
        stats = {
            "loss": float(0.5 * np.mean(samples.weights * td_error**2)),
            "q": float(values.mean()),
            "grad_norm": global_norm(gradients),
        }
        return GradientOutput(gradients, count, stats, td_error)

    def apply_gradients(self, gradients: Weights) -> None:
        """One step of Adam. ``NonFiniteError`` where a gradient is not finite; nothing has changed then."""
        if not all_finite(gradients):
            raise NonFiniteError("a gradient is NaN or infinite")
        online = {name: self._weights[name] for name in (WEIGHT, BIAS)}
        check_gradients(online, gradients)
        weights, self._optimizer = self.update_rule().update(online, gradients, self._optimizer)
        self._load(weights)

    @property
    def acting(self) -> frozenset[str]:
        return frozenset({WEIGHT, BIAS})

    @property
    def trainable(self) -> frozenset[str]:
        return frozenset({WEIGHT, BIAS})

    def update_rule(self) -> UpdateRule:
        return Adam(value_at(self.config.learning_rate, self._env_steps), self.config.max_grad_norm)

    # -- schedules, utilities, weights, state

    def on_progress(self, progress: Progress) -> None:
        """The target is replaced whenever the environment steps pass a multiple of ``target_every``."""
        every = self.config.target_every
        if progress.env_steps // every > self._env_steps // every:
            self.update_target()
        self._env_steps = progress.env_steps
        self._actor.on_progress(progress)

    def update_target(self) -> None:
        """The target becomes what the online values are."""
        self._load({TARGET + name: self._weights[name] for name in (WEIGHT, BIAS)})

    def utilities(self) -> Mapping[str, Callable[..., Any]]:
        return {"update_target": self.update_target, "set_epsilon": self._actor.set_epsilon}

    def _load(self, weights: Weights) -> None:
        self._weights = {**self._weights, **{name: np.array(array, np.float32) for name, array in weights.items()}}
        self._actor.set_weights({name: array for name, array in weights.items() if name in (WEIGHT, BIAS)})

    def set_weights(self, weights: Weights) -> None:
        check_weights(self._weights, weights)
        self._load(weights)

    def get_state(self) -> dict[str, Any]:
        """``weights``, ``optimizer`` (as ``update_rule().init`` gives it), ``env_steps`` and the actor's state."""
        return {
            "weights": {name: array.copy() for name, array in self._weights.items()},
            "optimizer": {
                name: value if name == "step" else {weight: array.copy() for weight, array in value.items()}
                for name, value in self._optimizer.items()
            },
            "env_steps": self._env_steps,
            "actor": self._actor.get_state(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self._actor.set_state(state["actor"])
        self.set_weights(state["weights"])
        self._optimizer = self.update_rule().restored(state["optimizer"], self.get_weights(self.trainable))
        self._env_steps = int(state["env_steps"])
