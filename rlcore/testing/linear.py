"""LinearPG: REINFORCE with a linear policy in plain numpy, its gradients written by hand. It uses no framework.

It shows that nothing outside a policy graph knows of a framework, learns CartPole in seconds, and reads as the
smallest complete example of a policy graph.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat, PositiveFloat

from rlcore.acting import LOG_STD, Distribution, FlatObs, distribution_for, mask_for, masked, remarks_on
from rlcore.acting.rho import returns_to_go
from rlcore.batch import ACTION_LOGP, ADVANTAGES, SampleBatch
from rlcore.columns import Columns, take
from rlcore.errors import NonFiniteError, UserError
from rlcore.model import BatchedModel
from rlcore.optim import Adam, UpdateRule, global_norm
from rlcore.policy_graph import (
    ActOutput,
    ActRows,
    GradientOutput,
    GraphConfig,
    OtherAgents,
    Pinned,
    PolicyGraph,
    Progress,
    Remark,
    State,
    Weights,
    call_utility,
    check_weights,
)
from rlcore.schedule import NonNegativeSchedule, value_at
from rlcore.testing.derivatives import by_parameters

WEIGHT, BIAS = "policy.out.weight", "policy.out.bias"


class LinearPGConfig(GraphConfig):
    """Settings of ``numpy.pg``, named as those of the other frameworks' ``pg``; it has no ``model``.

    ``feature_scale`` multiplies the flattened observation. Adam moves every weight by about the learning rate, however
    small the observations are: the scale says how far that moves the policy. ``normalize_advantages`` gives the
    returns of all that an evaluator sampled at once mean 0 and deviation 1. ``epsilon`` is Adam's.
    """

    learning_rate: NonNegativeSchedule = 4e-3
    gamma: float = Field(0.99, ge=0.0, le=1.0)
    max_grad_norm: PositiveFloat | None = 0.5
    entropy_coeff: NonNegativeSchedule = 0.0
    normalize_advantages: bool = True
    initial_log_std: FiniteFloat = 0.0
    epsilon: PositiveFloat = 1e-8
    feature_scale: PositiveFloat = 40.0

    @property
    def discount(self) -> float:
        return self.gamma


class LinearActor:
    """Acts by ``features @ weight + bias``, the logits of discrete actions and the means of Gaussian ones."""

    lookahead = 0

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: LinearPGConfig,
        weights: Weights,
    ) -> None:
        self._flatten = FlatObs(observation_space)
        self._mask = mask_for(observation_space, action_space)
        self._scale = np.float32(config.feature_scale)
        self._rho = functools.partial(returns_to_go, gamma=config.gamma, normalize=config.normalize_advantages)
        self._distribution: Distribution = distribution_for(action_space, squash=False)
        self._weights: Weights = {}
        self.set_weights(weights)

    def features(self, obs: Columns) -> NDArray[np.float32]:
        """float32 ``[n, features]`` from observations ``[n, ...]``."""
        # What is not finite is named where observations are checked; a warning would only come before it.
        with np.errstate(over="ignore"):
            return self._flatten(obs) * self._scale

    def parameters(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """The parameters of the action distribution, ``[n, parameters]``."""
        with np.errstate(over="ignore", invalid="ignore"):
            out = features @ self._weights[WEIGHT] + self._weights[BIAS]
        return self._distribution.params(np.asarray(out, np.float32), self._weights.get(LOG_STD))

    def allowed(self, obs: Columns) -> NDArray[np.bool_] | None:
        """The flags of the action masks in observations ``[n, ...]``; None where there are none."""
        return None if self._mask is None else self._mask.read(obs)

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
        """Actions for observations ``[n, ...]``; without ``explore`` the likeliest.

        ``NoLegalActionError`` where an action mask allows nothing.
        """
        params = masked(self._distribution, self._mask, self.parameters(self.features(obs)), obs, rows)
        actions, logp, extras = self._distribution.draw(params, rng) if explore else self._distribution.mode(params)
        return ActOutput(actions, (), {**extras, ACTION_LOGP: logp})

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        """Adds the return to go of every row, and the advantages made of them."""
        return self._rho(batch)

    def on_progress(self, progress: Progress) -> None:
        """Acting does not depend on progress."""

    def call(self, utility: str, *args: Any) -> Any:
        """There are no utilities: ``UserError``."""
        return call_utility(self, {}, utility, args)

    def set_weights(self, weights: Weights) -> None:
        """Copies the named weights."""
        if self._weights:
            check_weights(self._weights, weights)
        self._weights = {**self._weights, **{name: np.array(array, np.float32) for name, array in weights.items()}}

    def get_state(self) -> dict[str, Any]:
        """``{"weights": {name: array}}``."""
        return {"weights": {name: array.copy() for name, array in self._weights.items()}}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from what ``get_state`` gave."""
        self.set_weights(state["weights"])


class _Samples(NamedTuple):
    """``features [n, f]``, ``actions [n, ...]``, ``advantages [n]``, the flags of masks ``[n, options]`` or None."""

    features: NDArray[np.float32]
    actions: Columns
    advantages: NDArray[np.float32]
    allowed: NDArray[np.bool_] | None

    def rows(self, units: NDArray[np.int64]) -> _Samples:
        """Those at ``units``."""
        allowed = None if self.allowed is None else self.allowed[units]
        return _Samples(self.features[units], take(self.actions, units), self.advantages[units], allowed)


class LinearPG(PolicyGraph):
    """``numpy.pg``: for actions of any space that can be acted in. Statistics: ``policy_loss entropy loss grad_norm``.

    Episodes should be sampled whole: a piece that is cut off counts as if nothing came after it.

    Weights: ``policy.out.weight [features, outputs]`` and ``policy.out.bias``, zero at first, and for Box actions
    ``policy.log_std``.
    """

    Config = LinearPGConfig
    config: LinearPGConfig

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
        self._distribution: Distribution = distribution_for(action_space, squash=False)
        size, outputs = FlatObs(observation_space).size, self._distribution.outputs
        self._weights: Weights = {WEIGHT: np.zeros((size, outputs), np.float32), BIAS: np.zeros(outputs, np.float32)}
        if self._distribution.free:
            self._weights[LOG_STD] = np.full(self._distribution.free, self.config.initial_log_std, np.float32)
        self._env_steps = 0
        self._optimizer = self.update_rule().init(self._weights)
        self._actor = self.actor()

    @classmethod
    def remarks(
        cls,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: GraphConfig,
    ) -> list[Remark]:
        return remarks_on(observation_space, {})

    # -- acting

    def actor(self) -> LinearActor:
        """The same policy without what learning needs."""
        return LinearActor(self.observation_space, self.action_space, self.config, self._weights)

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

    def pin(self, batch: SampleBatch) -> Pinned[_Samples]:
        """The features of the batch, its actions and advantages, and what its masks allow."""
        obs = batch.obs
        samples = _Samples(self._actor.features(obs), batch.actions, batch[ADVANTAGES], self._actor.allowed(obs))
        return Pinned(samples, len(batch))

    def gradients(
        self, batch: SampleBatch | Pinned[_Samples], units: NDArray[np.int64] | None = None
    ) -> GradientOutput:
        """Of the mean of ``-log pi(a) * advantage - entropy_coeff * entropy`` (Williams 1992, equation 4)."""
        samples = (batch if isinstance(batch, Pinned) else self.pin(batch)).held
        if units is not None:
            samples = samples.rows(units)
        count = len(samples.advantages)
        if count == 0:
            raise UserError("there is no sample to learn from")
        params = self._actor.parameters(samples.features)
        if samples.allowed is not None:
            params = self._distribution.masked(params, samples.allowed)
        entropy_coeff = value_at(self.config.entropy_coeff, self._env_steps)
        slopes = by_parameters(self._distribution, params, samples.actions, samples.advantages, entropy_coeff) / count
        by_outputs, by_log_std = np.split(slopes, [self._distribution.outputs], axis=1)
        gradients = {WEIGHT: samples.features.T @ by_outputs, BIAS: by_outputs.sum(0)}
        if LOG_STD in self._weights:
            gradients[LOG_STD] = by_log_std.sum(0)
        log_probs = self._distribution.log_prob(params, samples.actions, {})
        policy_loss = -float(np.mean(log_probs * samples.advantages))
        entropy = float(self._distribution.entropy(params).mean())
        stats = {
            "policy_loss": policy_loss,
            "entropy": entropy,
            "loss": policy_loss - entropy_coeff * entropy,
            "grad_norm": global_norm(gradients),
        }
        return GradientOutput({name: np.asarray(g, np.float32) for name, g in gradients.items()}, count, stats)

    def log_probs(self, batch: SampleBatch) -> NDArray[np.float32]:
        params = self._actor.parameters(self._actor.features(batch.obs))
        allowed = self._actor.allowed(batch.obs)
        if allowed is not None:
            params = self._distribution.masked(params, allowed)
        return self._distribution.log_prob(params, batch.actions, batch.rows)

    def apply_gradients(self, gradients: Weights) -> None:
        """One step of Adam. ``NonFiniteError`` where a gradient is not finite; nothing has changed then."""
        if not all(np.isfinite(gradient).all() for gradient in gradients.values()):
            raise NonFiniteError("a gradient is NaN or infinite")
        rule = self.update_rule()
        weights, self._optimizer = rule.update(self._weights, gradients, self._optimizer)
        self._load(weights)

    def update_rule(self) -> UpdateRule:
        rate = value_at(self.config.learning_rate, self._env_steps)
        return Adam(rate, self.config.max_grad_norm, epsilon=self.config.epsilon)

    # -- schedules, weights, state

    def on_progress(self, progress: Progress) -> None:
        """Schedules go by the environment steps."""
        self._env_steps = progress.env_steps

    def _load(self, weights: Weights) -> None:
        self._weights = {**self._weights, **{name: np.array(array, np.float32) for name, array in weights.items()}}
        self._actor.set_weights(weights)

    def set_weights(self, weights: Weights) -> None:
        check_weights(self._weights, weights)
        self._load(weights)

    def get_state(self) -> dict[str, Any]:
        """``weights``, ``optimizer`` (as ``update_rule().init`` gives it) and ``env_steps``."""
        return {
            "weights": {name: array.copy() for name, array in self._weights.items()},
            "optimizer": {
                name: value if name == "step" else {weight: array.copy() for weight, array in value.items()}
                for name, value in self._optimizer.items()
            },
            "env_steps": self._env_steps,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.set_weights(state["weights"])
        self._optimizer = self.update_rule().restored(state["optimizer"], self.get_weights(self.trainable))
        self._env_steps = int(state["env_steps"])
