"""ActorCriticActor: a policy network and, where there is one, a value network, in numpy. It acts and does not learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.acting.actor_networks import networks
from rlcore.acting.architecture import LOG_STD, Architecture, refuse_encoders
from rlcore.acting.body import Shapes
from rlcore.acting.distributions import Distribution
from rlcore.acting.masks import mask_for, masked
from rlcore.acting.model_config import ModelConfig
from rlcore.acting.observations import FlatObs
from rlcore.acting.products import distribution_for
from rlcore.acting.stacked import StackedActor, StackedMLPs
from rlcore.acting.states import check_state
from rlcore.acting.weighted import WeightedActor
from rlcore.batch import ACTION_LOGP, LAST_VALUE, VF_PREDS, SampleBatch
from rlcore.columns import Columns
from rlcore.errors import UserError
from rlcore.policy_graph import ActOutput, ActRows, OtherAgents, State, Weights

#: rho: what a loss needs, from the rows; picklable, a module's function or a ``functools.partial`` of one.
Postprocess = Callable[[SampleBatch], SampleBatch]


class ActorCriticActor(WeightedActor):
    """Acts with a policy network; :class:`rlcore.policy_graph.Actor` for the graphs of every framework.

    ``act`` draws from the policy's distribution and adds the row column ``action_logp`` (float32). ``postprocess`` adds
    row ``vf_preds`` and cut ``last_value`` (float32), then applies ``rho``. ``act`` computes values on the way where
    they cost little, with a shared network, or where that is needed, with a recurrent one; else ``postprocess`` does,
    for the whole batch at once. With ``value`` false there are none and ``rho`` sees the batch as it is. Without
    ``rho`` batches stay as they were sampled.

    ``weights`` may hold more than the actor reads (a graph's target networks): it copies the names it knows.

    Raises ``SpaceError`` for spaces that it cannot read or act in, ``ConfigError`` for a model with convolutions or a
    custom one, ``UserError`` for missing weights or wrong shapes.
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
        value_outputs: int = 1,
        rho: Postprocess | None = None,
        lookahead: int = 0,
    ) -> None:
        self._architecture = Architecture.of(
            observation_space, action_space, model, squash=squash, value=value, value_outputs=value_outputs
        )
        refuse_encoders(self._architecture)
        self._state_parts = len(self._architecture.state_sizes)
        self.lookahead = lookahead
        self._model = model
        self._squash = squash
        self._value = value
        self._rho = rho
        self._flatten = FlatObs(observation_space, model.scale)
        self._mask = mask_for(observation_space, action_space)
        self._distribution: Distribution = distribution_for(action_space, squash)
        super().__init__(self.shapes(), weights)

    def shapes(self) -> Shapes:
        """The weights that it reads, with their shapes."""
        return self._architecture.shapes()

    def describe(self) -> dict[str, Any]:
        """What makes an actor that acts the same, beside spaces and weights, as plain JSON."""
        return {"model": self._model.model_dump(mode="json"), "squash": self._squash, "value": self._value}

    def rebuild(self, weights: Weights) -> None:
        self._networks = networks(self._architecture, weights)
        self._log_std = weights.get(LOG_STD)

    def initial_state(self, n: int) -> State:
        """Zeros ``[n, units]``: the output and the cell of the LSTM of each network; ``()`` without any."""
        return tuple(np.zeros((n, size), np.float32) for size in self._architecture.state_sizes)

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

        ``NoLegalActionError`` where an action mask allows nothing, ``UserError`` for a state that does not fit.
        """
        x = self._flatten(obs)
        check_state(state, self._state_parts, len(x))
        outputs, values, state = self._networks(x, state)
        params = self._distribution.params(outputs, self._log_std)
        params = masked(self._distribution, self._mask, params, obs, rows)
        actions, logp, extras = self._distribution.draw(params, rng) if explore else self._distribution.mode(params)
        extras[ACTION_LOGP] = logp
        if values is not None:
            extras[VF_PREDS] = values
        return ActOutput(actions, state, extras)

    def parameters(self, obs: Columns, state: State = ()) -> NDArray[np.float32]:
        """The parameters of the action distribution, before any mask, float32 ``[n, parameters]``."""
        outputs = self._networks(self._flatten(obs), state).outputs
        return self._distribution.params(outputs, self._log_std)

    def stacked(self, members: int) -> StackedActor | None:
        """So many policies of this kind at once; None where they are recurrent or share a network with the values."""
        if self._architecture.lstm or self._architecture.shared_value:
            return None
        return StackedMLPs(members, self._architecture, self._flatten, self._distribution, self._mask)

    def values(self, obs: Columns, state: State = ()) -> NDArray[np.float32]:
        """The values of observations ``[n, ...]``, float32 ``[n]``. ``UserError`` without a value network."""
        if not self._value:
            raise UserError("this actor has no value network")
        x = self._flatten(obs)
        check_state(state, self._state_parts, len(x))
        return self._networks.values(x, state)

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        """Adds ``vf_preds`` and ``last_value`` where there is a value network, then applies rho, where there is one."""
        if self._rho is None:
            return batch
        if self._value:
            if VF_PREDS not in batch:
                batch = batch.with_rows(**{VF_PREDS: self.values(batch.obs)})
            batch = batch.with_cuts(**{LAST_VALUE: self.values(batch.last_obs, batch.last_state())})
        return self._rho(batch)
