"""Deep Q-learning (Mnih et al. 2015) and what became of it: double, dueling, n-step, distributional, noisy."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt, PositiveFloat, model_validator

from rlcore.acting.q_actor import QActor, QChoice, acting_noise
from rlcore.acting.q_architecture import QArchitecture, factorised_noise
from rlcore.acting.q_config import QConfig
from rlcore.acting.states import check_state
from rlcore.batch import SampleBatch
from rlcore.columns import Columns, length, take
from rlcore.learning.coefficient import Coefficient
from rlcore.learning.inference import ROWS_AT_ONCE
from rlcore.learning.off_policy import Draws, OffPolicyConfig, OffPolicyRules
from rlcore.optim import Adam, UpdateRule
from rlcore.policy_graph import (
    PIECE,
    ROW,
    ActOutput,
    ActRows,
    GraphConfig,
    OtherAgents,
    State,
    Unit,
)
from rlcore.schedule import NonNegativeSchedule

#: Draws of the weights' noise, ``[3, noise_size]``: of the values, of the choice of the next action, of the targets.
NOISE = "noise"


class DQNConfig(QConfig, OffPolicyConfig):
    """``double`` chooses the next action by the online network and takes its value from the target (van Hasselt et al.
    2016); without it the target does both. A recurrent policy (``model.lstm``) learns from the pieces that it sampled,
    without the first ``burn_in`` rows of those that do not open an episode, which only bring its state up to date."""

    learning_rate: NonNegativeSchedule = 5e-4
    max_grad_norm: PositiveFloat | None = 10.0
    huber_delta: PositiveFloat | None = 1.0
    double: bool = True
    burn_in: NonNegativeInt = 0

    @model_validator(mode="after")
    def _recurrence_fits(self) -> DQNConfig:
        if self.burn_in and not self.model.lstm:
            raise ValueError("burn_in: only recurrent policies (model.lstm) have a state to bring up to date")
        if self.noisy is not None and self.model.lstm:
            raise ValueError("noisy: not for recurrent policies")
        return self


class DQNRules(OffPolicyRules):
    """Terms: ``q_loss q_mean``.

    The temporal difference of a row is ``Q - target``; of a distribution it is the divergence from the target's.
    """

    exploration_utility = "set_epsilon"
    actor_class = QActor
    Config: ClassVar[type[GraphConfig]] = DQNConfig
    config: DQNConfig
    _architecture: QArchitecture
    _choice: QChoice

    def _build(self, rng: np.random.Generator) -> None:
        super()._build(rng)
        self._architecture = QArchitecture.of(self.observation_space, self.action_space, self.config)
        self._recurrent, self._random = bool(self._architecture.lstm), bool(self._architecture.noise)
        self.minibatch_unit: Unit = PIECE if self._recurrent else ROW
        self._choice = QChoice(self.observation_space, self.action_space, self.config)
        self.lookahead = self._choice.lookahead

    @abstractmethod
    def _values(
        self, obs: Columns, state: State, noise: NDArray[np.float32] | None
    ) -> tuple[NDArray[np.float32], State]:
        """The values of all actions ``[n, actions]`` for observations ``[n, ...]``, and the state after them; with
        ``noise [noise_size]`` where that is given."""

    # -- learning

    def update_rule(self) -> UpdateRule:
        return Adam(self._learning_rate, self.config.max_grad_norm, epsilon=self.config.adam_epsilon)

    def coefficients(self) -> dict[str, Coefficient]:
        return {"q_loss": Coefficient(1.0), "q_mean": Coefficient()}

    def watched(self) -> frozenset[str]:
        return frozenset({"q_mean"})

    def _read_actions(self, actions: Columns) -> NDArray[np.int64]:
        return np.asarray(actions, np.int64)

    def _shared_draws(self, rng: np.random.Generator) -> Draws:
        return {NOISE: factorised_noise(3, self._architecture.noise_size, rng)} if self._random else {}

    # -- acting

    def act(
        self,
        obs: Columns,
        state: State = (),
        *,
        rows: ActRows | None = None,
        explore: bool = True,
        rng: np.random.Generator,
    ) -> ActOutput:
        """Actions for ``[n, ...]`` observations; without ``explore`` the best ones, without noise.

        ``NoLegalActionError`` where an action mask allows nothing, ``UserError`` for a state that does not fit.
        """
        check_state(state, len(self._architecture.state_sizes), length(obs))
        q, after = self._values(obs, state, acting_noise(self._architecture, explore, rng))
        return ActOutput(self._choice.choose(q, obs, rows, explore, rng), after)

    def initial_state(self, n: int) -> State:
        return tuple(np.zeros((n, size), np.float32) for size in self._architecture.state_sizes)

    def q_values(self, obs: Columns) -> NDArray[np.float32]:
        """The values of all actions at the beginning of an episode, float32 ``[n, actions]``, without noise."""
        parts = [slice(start, start + ROWS_AT_ONCE) for start in range(0, max(length(obs), 1), ROWS_AT_ONCE)]
        rows = [take(obs, part) for part in parts]
        return np.concatenate([self._values(own, self.initial_state(length(own)), None)[0] for own in rows])

    def postprocess(self, batch: SampleBatch, other_agents: OtherAgents | None = None) -> SampleBatch:
        """Sums rewards over ``n_step`` steps, and adds row ``priorities`` where that is asked for."""
        return self._choice.finish(batch, self.q_values)
