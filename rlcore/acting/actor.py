"""ActorCriticActor: a policy network and, where there is one, a value network, in numpy. It acts and does not learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.acting.distributions import Distribution
from rlcore.acting.masks import mask_for, masked
from rlcore.acting.networks import MLP, ModelConfig, init_mlp, mlp_shapes
from rlcore.acting.observations import FlatObs
from rlcore.acting.products import distribution_for
from rlcore.batch import ACTION_LOGP, LAST_VALUE, VF_PREDS, SampleBatch
from rlcore.columns import Columns
from rlcore.errors import ConfigError, UserError
from rlcore.policy_graph import ActOutput, ActRows, OtherAgents, Progress, State, Weights, call_utility, check_weights

LOG_STD = "policy.log_std"

#: rho: what a loss needs, from the rows; picklable, a module's function or a ``functools.partial`` of one.
Postprocess = Callable[[SampleBatch], SampleBatch]


def actor_critic_shapes(
    observation_space: gymnasium.Space[Any],
    action_space: gymnasium.Space[Any],
    model: ModelConfig,
    *,
    squash: bool = False,
    value: bool = True,
) -> dict[str, tuple[int, ...]]:
    """The names and shapes of the weights: ``policy.*``, ``policy.log_std`` for Boxes, and ``value.*``."""
    size, distribution = FlatObs(observation_space).size, distribution_for(action_space, squash)
    shapes = mlp_shapes("policy", (size, *model.hidden, distribution.outputs))
    if distribution.free:
        shapes[LOG_STD] = (distribution.free,)
    return shapes | (mlp_shapes("value", (size, *model.hidden, 1)) if value else {})


def init_actor_critic(
    observation_space: gymnasium.Space[Any],
    action_space: gymnasium.Space[Any],
    model: ModelConfig,
    rng: np.random.Generator,
    *,
    squash: bool = False,
    value: bool = True,
    log_std: float = 0.0,
) -> Weights:
    """The float32 weights that every framework starts from: orthogonal, gain 0.01 at the policy's end, 1 at the other.

    ``log_std`` is where the state independent log standard deviations of Gaussians start.
    """
    size, distribution = FlatObs(observation_space).size, distribution_for(action_space, squash)
    weights = init_mlp("policy", (size, *model.hidden, distribution.outputs), 0.01, rng)
    if distribution.free:
        weights[LOG_STD] = np.full(distribution.free, log_std, np.float32)
    return weights | (init_mlp("value", (size, *model.hidden, 1), 1.0, rng) if value else {})


class ActorCriticActor:
    """Acts with a policy network; :class:`rlcore.policy_graph.Actor` for the graphs of every framework.

    ``act`` draws from the policy's distribution and adds the row column ``action_logp`` (float32). Values are not
    computed step by step: ``postprocess`` adds row ``vf_preds`` and cut ``last_value`` (float32) for the whole batch
    at once, then applies ``rho``. With ``value`` false there is no value network and ``rho`` sees the batch as it is.

    ``weights`` may hold more than the actor reads (a graph's target networks): it copies the names it knows.

    Raises ``SpaceError`` for spaces that it cannot read or act in, ``ConfigError`` for a recurrent model,
    ``UserError`` for missing weights or wrong shapes.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        model: ModelConfig,
        weights: Weights,
        *,
        squash: bool = False,
        value: bool = True,
        rho: Postprocess | None = None,
        lookahead: int = 0,
    ) -> None:
        if model.lstm:
            raise ConfigError("model: lstm is not supported by this policy")
        self.lookahead = lookahead
        self._model = model
        self._squash = squash
        self._value = value
        self._rho = rho
        self._flatten = FlatObs(observation_space, model.scale)
        self._mask = mask_for(observation_space, action_space)
        self._distribution: Distribution = distribution_for(action_space, squash)
        shapes = actor_critic_shapes(observation_space, action_space, model, squash=squash, value=value)
        missing = sorted(set(shapes) - set(weights))
        if missing:
            raise UserError(f"the actor lacks weights {', '.join(missing)}")
        self._weights: Weights = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
        self.set_weights(weights)

    def describe(self) -> dict[str, Any]:
        """What makes an actor that acts the same, beside spaces and weights, as plain JSON."""
        return {"model": self._model.model_dump(mode="json"), "squash": self._squash, "value": self._value}

    @property
    def acting(self) -> frozenset[str]:
        """The names of the weights that it reads."""
        return frozenset(self._weights)

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
        """Actions for observations ``[n, ...]``; without ``explore`` the mode of the distribution.

        ``NoLegalActionError`` where an action mask allows nothing.
        """
        params = masked(self._distribution, self._mask, self.parameters(obs), obs, rows)
        actions, logp, extras = self._distribution.draw(params, rng) if explore else self._distribution.mode(params)
        extras[ACTION_LOGP] = logp
        return ActOutput(actions, (), extras)

    def parameters(self, obs: Columns) -> NDArray[np.float32]:
        """The parameters of the action distribution, before any mask, float32 ``[n, parameters]``."""
        out = self._policy(self._flatten(obs))
        if self._log_std is None:
            return out
        params = np.empty((len(out), self._distribution.parameters), np.float32)
        params[:, : self._distribution.outputs] = out
        params[:, self._distribution.outputs :] = self._log_std
        return params

    def values(self, obs: Columns) -> NDArray[np.float32]:
        """The values of observations ``[n, ...]``, float32 ``[n]``. ``UserError`` without a value network."""
        if self._critic is None:
            raise UserError("this actor has no value network")
        return self._critic(self._flatten(obs))[:, 0]

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        """Adds ``vf_preds`` and ``last_value`` where there is a value network, then applies rho."""
        if self._critic is not None:
            batch = batch.with_rows(**{VF_PREDS: self.values(batch.obs)})
            batch = batch.with_cuts(**{LAST_VALUE: self.values(batch.last_obs)})
        return batch if self._rho is None else self._rho(batch)

    def on_progress(self, progress: Progress) -> None:
        """Nothing here depends on progress; subclasses with schedules override it."""

    def utilities(self) -> Mapping[str, Callable[..., Any]]:
        """None here; subclasses name theirs."""
        return {}

    def call(self, utility: str, *args: Any) -> Any:
        """Calls a utility by name; ``UserError`` for an unknown one."""
        return call_utility(self, self.utilities(), utility, args)

    def get_weights(self) -> Weights:
        """Copies of the weights that it reads."""
        return {name: array.copy() for name, array in self._weights.items()}

    def set_weights(self, weights: Weights) -> None:
        """Copies those of ``weights`` that it reads; names of other parts of a graph are left to them.

        Raises ``UserError`` for a wrong shape, and where none of the names is known here.
        """
        known = {name: array for name, array in weights.items() if name in self._weights}
        if not known:
            given = ", ".join(sorted(weights)) or "none"
            raise UserError(f"no weights of this actor among {given}; it has: {', '.join(sorted(self._weights))}")
        check_weights(self._weights, known)
        # Copied, as arrays that views of live parameters may be, so that nothing changes behind its back.
        copies = {name: np.array(array, np.float32, order="C") for name, array in known.items()}
        self._weights = {**self._weights, **copies}
        self._policy = MLP(self._weights, "policy", self._model.activation)
        self._critic = MLP(self._weights, "value", self._model.activation) if self._value else None
        self._log_std = self._weights.get(LOG_STD)

    def get_state(self) -> dict[str, Any]:
        """``{"weights": {name: array}}``: nothing else is kept."""
        return {"weights": self.get_weights()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from what ``get_state`` gave."""
        self.set_weights(state["weights"])
