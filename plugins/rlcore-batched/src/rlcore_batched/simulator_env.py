"""SimulatorEnv: copies of a simulator with one agent in each, as a BatchedEnv in lockstep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns, empty_columns, leaf_spaces
from rlcore.columns import take as take_rows
from rlcore.env import StepBatch
from rlcore.model import BatchedModel
from rlcore_batched.array_env import ArrayEnv, Phase
from rlcore_batched.noise import episode_seeds
from rlcore_batched.simulator import Simulator, State, put, take
from rlcore_batched.simulator_model import SimulatorModel
from rlcore_batched.values import ValueCheck, called, stepped


class SimulatorEnv(ArrayEnv):
    """``num_slots`` copies of ``simulator``. An episode that ends is followed by the next one in the same step."""

    lockstep = True

    def __init__(self, simulator: Simulator[Any], num_slots: int, name: str) -> None:
        spaces = simulator.observation_space, simulator.action_space
        super().__init__(spaces, num_slots, name, np.arange(num_slots))
        self.frames_per_second = simulator.frames_per_second
        self._simulator = simulator
        self._limit = simulator.time_limit
        self._state: State = {}
        self._agent_id = np.zeros(num_slots, np.int64)
        self._everyone = np.ones(num_slots, np.bool_)
        self._nobody = np.zeros(num_slots, np.bool_)
        self._no_final = empty_columns(spaces[0], (0,))
        self._check_values = ValueCheck(name, leaf_spaces(spaces[0]))

    def _open(self) -> None:
        seeds = episode_seeds(self._seed, self._waiting, self._episode)
        self._state = called(self.name, "start()", lambda: self._simulator.start(seeds))

    def _observe(self, state: State, rows: int) -> Columns:
        obs = called(self.name, "observe()", lambda: self._simulator.observe(state))
        return self._check_values.observations(obs, rows)

    def _shown(self) -> StepBatch:
        rewards = np.zeros(self.num_slots, np.float32)
        obs = self._observe(self._state, self.num_slots)
        return self._step(obs, rewards, self._nobody, self._nobody, self._nobody, self._no_final, self._t == 0)

    def _advance(self, actions: NDArray[Any]) -> StepBatch:
        n, t, check = self.num_slots, self._t, self._check_values
        state = self._state
        self._state, earned, ended_for_good = stepped(self.name, lambda: self._simulator.step(state, actions))
        t += 1
        rewards = check.rewards(earned, (n,), self._waiting, t)
        terminated = check.flags(ended_for_good, n, "terminated")
        truncated = self._nobody if self._limit is None else t >= self._limit
        ended = terminated | truncated
        obs, final = self._observe(self._state, n), self._no_final
        if np.count_nonzero(ended):
            index = np.flatnonzero(ended)
            final = take_rows(obs, index)
            self._begin(index)
            _put_rows(obs, index, self._observe(take(self._state, index), len(index)))
        return self._step(obs, rewards, terminated, truncated, ended, final, ended)

    def _begin(self, index: NDArray[np.int64]) -> None:
        """The next episodes of some slots."""
        self._episode[index] += 1
        self._t[index] = 0
        seeds = episode_seeds(self._seed, index, self._episode[index])
        put(self._state, index, called(self.name, "start()", lambda: self._simulator.start(seeds)))

    def _step(
        self,
        obs: Columns,
        rewards: NDArray[np.float32],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        over: NDArray[np.bool_],
        final: Columns,
        first: NDArray[np.bool_],
    ) -> StepBatch:
        return StepBatch(
            slot=self._waiting,
            agent_id=self._agent_id,
            reward=rewards,
            terminated=terminated,
            truncated=truncated,
            final_obs=final,
            obs=obs,
            first=first,
            needs_action=self._everyone,
            env_step=self._t,
            episode_over=over,
        )

    def _copied(self) -> dict[str, Any]:
        return {"state": {name: array.copy() for name, array in self._state.items()}}

    def _take_over(self, state: Mapping[str, Any], kept: int) -> None:
        own = {name: np.asarray(state["state"][name])[:kept] for name in self._state}
        put(self._state, slice(0, kept), own)

    def model(self) -> BatchedModel | None:
        """The simulator as a model to plan with, where its observations show the whole of its state."""
        return SimulatorModel.of(self._simulator)

    def render(self, slot: int) -> NDArray[np.uint8] | None:
        if self._phase is Phase.RESET:
            return None
        return self._simulator.draw(take(self._state, slice(slot, slot + 1)))


def _put_rows(obs: Columns, index: NDArray[np.int64], values: Columns) -> None:
    if not isinstance(obs, dict):
        assert not isinstance(values, dict)
        obs[index] = values
        return
    assert isinstance(values, dict)
    for leaf, array in obs.items():
        array[index] = values[leaf]
