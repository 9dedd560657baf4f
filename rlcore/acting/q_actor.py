"""QActor: acts by the values of discrete actions, in numpy. It does not learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlcore.acting.architecture import refuse_encoders
from rlcore.acting.exploration import ExplorationRate, epsilon_greedy, greedy
from rlcore.acting.masks import ActionMask, mask_for
from rlcore.acting.observations import FlatObs
from rlcore.acting.priorities import with_priorities
from rlcore.acting.q_architecture import QArchitecture, factorised_noise
from rlcore.acting.q_config import QConfig
from rlcore.acting.q_network import QNetwork
from rlcore.acting.states import check_state
from rlcore.acting.weighted import WeightedActor
from rlcore.batch import ACTIONS, SampleBatch
from rlcore.columns import Columns
from rlcore.policy_graph import ActOutput, ActRows, OtherAgents, Progress, State, Weights
from rlcore.returns import n_step

QValues = Callable[[Columns], NDArray[np.float32]]


class QChoice:
    """How values of actions become actions and rows become transitions: the part that no framework computes."""

    def __init__(
        self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any], config: QConfig
    ) -> None:
        self._config = config
        self._mask: ActionMask | None = mask_for(observation_space, action_space)
        self.epsilon = ExplorationRate(config.epsilon)

    @property
    def mask(self) -> ActionMask | None:
        """The reader of action masks, None where observations have none."""
        return self._mask

    @property
    def lookahead(self) -> int:
        """Sums over several steps need the rows that follow; sequences of recurrent policies are summed in the loss."""
        return 0 if self._config.model.lstm else self._config.n_step - 1

    def choose(
        self, q: NDArray[np.float32], obs: Columns, rows: ActRows | None, explore: bool, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Actions ``[n]``. ``NoLegalActionError`` where an action mask allows nothing."""
        allowed = None if self._mask is None else self._mask.legal(obs, rows)
        return epsilon_greedy(q, allowed, self.epsilon.of(rows), rng) if explore else greedy(q, allowed)

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
        chosen = greedy(q, None if self._mask is None else self._mask.read(obs))
        return np.asarray(q[np.arange(len(q)), chosen])

    def utilities(self) -> Mapping[str, Callable[..., Any]]:
        """``epsilon()``, the number as it stands, and ``set_epsilon(number or array by slot, or None)``."""
        return {"epsilon": self._epsilon, "set_epsilon": self._set_epsilon}

    def _epsilon(self) -> float | NDArray[np.float64]:
        now = self.epsilon.now()
        return now.copy() if now.ndim else float(now)

    def _set_epsilon(self, value: ArrayLike | None) -> None:
        self.epsilon.set(value)


class QActor(WeightedActor):
    """:class:`rlcore.policy_graph.Actor` of Q-learning for the graphs of every framework.

    Raises ``SpaceError`` for spaces that it cannot read or act in, ``ConfigError`` for a model with convolutions or a
    custom one, ``UserError`` for missing weights or wrong shapes.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: QConfig,
        weights: Weights,
    ) -> None:
        self._architecture = QArchitecture.of(observation_space, action_space, config)
        refuse_encoders(self._architecture)
        self._config = config
        self._state_parts = len(self._architecture.state_sizes)
        self._flatten = FlatObs(observation_space, config.model.scale)
        self._choice = QChoice(observation_space, action_space, config)
        self.lookahead = self._choice.lookahead
        super().__init__(self._architecture.shapes(), weights)

    def describe(self) -> dict[str, Any]:
        """What makes an actor that acts the same, beside spaces and weights, as plain JSON."""
        return {"config": self._config.model_dump(mode="json")}

    def rebuild(self, weights: Weights) -> None:
        self._network = QNetwork(self._architecture, self._config.distribution, weights)

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

    def on_progress(self, progress: Progress) -> None:
        """The schedule of epsilon goes by the environment steps."""
        self._choice.epsilon.advance(progress.env_steps)

    def utilities(self) -> Mapping[str, Callable[..., Any]]:
        return self._choice.utilities()

    def get_state(self) -> dict[str, Any]:
        """``weights`` and ``epsilon``."""
        return {**super().get_state(), "epsilon": self._choice.epsilon.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._choice.epsilon.set_state(state["epsilon"])


def acting_noise(
    architecture: QArchitecture, explore: bool, rng: np.random.Generator
) -> NDArray[np.float32] | None:
    """The noise to act with once, ``[noise_size]``; None for noiseless layers, and where nothing is explored."""
    if not (architecture.noise and explore):
        return None
    return np.asarray(factorised_noise(1, architecture.noise_size, rng)[0])
