"""QActor: acts by the values of discrete actions, in numpy. It does not learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.acting.architecture import refuse_encoders
from rlcore.acting.choice import ChoosingActor, RatedChoice
from rlcore.acting.exploration import epsilon_greedy, greedy
from rlcore.acting.masks import mask_for
from rlcore.acting.observations import FlatObs
from rlcore.acting.priorities import with_priorities
from rlcore.acting.q_architecture import QArchitecture, factorised_noise
from rlcore.acting.q_config import QConfig
from rlcore.acting.q_network import QNetwork
from rlcore.acting.states import check_state
from rlcore.batch import ACTIONS, SampleBatch
from rlcore.columns import Columns
from rlcore.policy_graph import ActOutput, ActRows, OtherAgents, State, Weights
from rlcore.returns import n_step

QValues = Callable[[Columns], NDArray[np.float32]]


class QChoice(RatedChoice):
    """By values of actions, epsilon-greedily."""

    def __init__(
        self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any], config: QConfig
    ) -> None:
        super().__init__("epsilon", config.epsilon)
        self._config = config
        self.mask = mask_for(observation_space, action_space)
        # Sequences of recurrent policies are summed in the loss.
        self.lookahead = 0 if config.model.lstm else config.n_step - 1

    def choose(
        self, q: NDArray[np.float32], obs: Columns, rows: ActRows | None, explore: bool, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Actions ``[n]``. ``NoLegalActionError`` where an action mask allows nothing."""
        allowed = None if self.mask is None else self.mask.legal(obs, rows)
        return epsilon_greedy(q, allowed, self.rate.of(rows), rng) if explore else greedy(q, allowed)

    def finish(self, batch: SampleBatch, q_values: QValues) -> SampleBatch:
        """rho: sums of rewards, and priorities where they are asked for; of recurrent policies the batch as it is."""
        if self._config.model.lstm:
            return batch
        done = n_step(batch, self._config.n_step, self._config.gamma)
        if not self._config.initial_priorities:
            return done
        q = q_values(batch.obs)
        taken = q[np.arange(len(q)), done[ACTIONS]]
        last_best = self._best(q_values(batch.last_obs), batch.last_obs)
        return with_priorities(done, taken, self._best(q, batch.obs), last_best)

    def _best(self, q: NDArray[np.float32], obs: Columns) -> NDArray[np.float32]:
        chosen = greedy(q, None if self.mask is None else self.mask.read(obs))
        return np.asarray(q[np.arange(len(q)), chosen])


class QActor(ChoosingActor):
    """:class:`rlcore.policy_graph.Actor` of Q-learning for the graphs of every framework.

    Raises ``SpaceError`` for spaces that it cannot read or act in, ``ConfigError`` for a model with convolutions or a
    custom one, ``UserError`` for missing weights or wrong shapes.
    """

    _choice: QChoice

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: QConfig,
        weights: Weights,
    ) -> None:
        self._architecture = QArchitecture.of(observation_space, action_space, config)
        refuse_encoders(self._architecture)
        self._distribution = config.distribution
        self._state_parts = len(self._architecture.state_sizes)
        self._flatten = FlatObs(observation_space, config.model.scale)
        choice = QChoice(observation_space, action_space, config)
        super().__init__(choice, config, self._architecture.shapes(), weights)

    def rebuild(self, weights: Weights) -> None:
        self._network = QNetwork(self._architecture, self._distribution, weights)

    def initial_state(self, n: int) -> State:
        """Zeros ``[n, units]``: the output and the cell of the LSTM; ``()`` without one."""
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
        """Actions for observations ``[n, ...]``; without ``explore`` the best ones, without noise.

        ``NoLegalActionError`` where an action mask allows nothing, ``UserError`` for a state that does not fit.
        """
        x = self._flatten(obs)
        check_state(state, self._state_parts, len(x))
        noise = acting_noise(self._architecture, explore, rng)
        q, after = self._network(x, state, noise)
        return ActOutput(self._choice.choose(q, obs, rows, explore, rng), after)

    def q_values(self, obs: Columns, state: State = ()) -> NDArray[np.float32]:
        """The values of all actions, float32 ``[n, actions]``, without noise."""
        x = self._flatten(obs)
        check_state(state, self._state_parts, len(x))
        return self._network(x, state)[0]

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        """Sums rewards over ``n_step`` steps, and adds row ``priorities`` where that is asked for."""
        return self._choice.finish(batch, self.q_values)


def acting_noise(
    architecture: QArchitecture, explore: bool, rng: np.random.Generator
) -> NDArray[np.float32] | None:
    """The noise to act with once, ``[noise_size]``; None for noiseless layers, and where nothing is explored."""
    if not (architecture.noise and explore):
        return None
    return np.asarray(factorised_noise(1, architecture.noise_size, rng)[0])
