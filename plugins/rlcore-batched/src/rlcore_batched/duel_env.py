"""DuelEnv: copies of a simulator in which two players act in every step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.columns import leaf_spaces
from rlcore.env import StepBatch
from rlcore_batched.array_env import ArrayEnv, Phase
from rlcore_batched.noise import Bits, episode_seeds
from rlcore_batched.seats import PLAYERS, GameSettings, Seats
from rlcore_batched.simulator import Outcome, State, put, take
from rlcore_batched.values import ValueCheck, called, stepped


class Duel(Protocol):
    """What a simulator for two players has beyond those for one: actions and rewards ``[n, 2]``, and two views."""

    settings: GameSettings
    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    time_limit: int | None
    frames_per_second: float

    def start(self, seeds: Bits) -> State: ...

    def step(self, state: State, actions: NDArray[Any]) -> Outcome: ...

    def view(self, state: State, players: NDArray[np.int64]) -> NDArray[Any]:
        """What ``players [n]`` see, new arrays ``[n, ...]``."""

    def draw(self, state: State) -> NDArray[np.uint8]: ...


class DuelEnv(ArrayEnv):
    """Agents 0 and 1 of one group. Rows come slot by slot, agent 0 first; both end with their game."""

    def __init__(self, simulator: Duel, num_slots: int, name: str) -> None:
        spaces = simulator.observation_space, simulator.action_space
        super().__init__(spaces, num_slots, name, np.repeat(np.arange(num_slots), PLAYERS))
        self.frames_per_second = simulator.frames_per_second
        self.agents = dict.fromkeys(self.groups, tuple(range(PLAYERS)))
        self._simulator = simulator
        self._seats = Seats(num_slots, simulator.settings)
        self._agent_id = np.tile(np.arange(PLAYERS), num_slots)
        self._state: State = {}
        self._check_values = ValueCheck(name, leaf_spaces(spaces[0]))

    def _open(self) -> None:
        every = np.arange(self.num_slots)
        seeds = episode_seeds(self._seed, every, self._episode)
        self._seats.deal(every, seeds)
        self._state = called(self.name, "start()", lambda: self._simulator.start(seeds))

    def _shown(self) -> StepBatch:
        nobody = np.zeros(self.num_slots, np.bool_)
        obs = self._views(self._state, self._seats.of)
        rewards = np.zeros((self.num_slots, PLAYERS), np.float32)
        return self._step(obs, rewards, nobody, nobody, obs[:0], self._t == 0)

    def _advance(self, actions: NDArray[Any]) -> StepBatch:
        n, state, check = self.num_slots, self._state, self._check_values
        pairs = self._seats.exchanged(actions.reshape(n, PLAYERS, *actions.shape[1:]))
        self._state, paid, ended_for_good = stepped(self.name, lambda: self._simulator.step(state, pairs))
        self._t += 1
        rewards = self._seats.exchanged(check.rewards(paid, (n, PLAYERS), np.arange(n), self._t))
        terminated = check.flags(ended_for_good, n, "terminated")
        limit = self._simulator.time_limit
        truncated = np.zeros(self.num_slots, np.bool_) if limit is None else self._t >= limit
        ended = terminated | truncated
        obs = self._views(self._state, self._seats.of)
        final = obs[:0]
        if ended.any():
            index = np.flatnonzero(ended)
            over = ended.repeat(PLAYERS)
            final = obs[over]
            self._begin(index)
            obs[over] = self._views(take(self._state, index), self._seats.of[index])
        return self._step(obs, rewards, terminated, truncated, final, ended)

    def _begin(self, index: NDArray[np.int64]) -> None:
        self._episode[index] += 1
        self._t[index] = 0
        seeds = episode_seeds(self._seed, index, self._episode[index])
        self._seats.deal(index, seeds)
        put(self._state, index, called(self.name, "start()", lambda: self._simulator.start(seeds)))

    def _views(self, state: State, seats: NDArray[np.int64]) -> NDArray[Any]:
        """``[2 n, ...]``, slot by slot, of agents who sit in ``seats [n, 2]``."""
        views = [self._view(state, seats[:, agent]) for agent in range(PLAYERS)]
        return np.stack(views, axis=1).reshape(len(seats) * PLAYERS, *views[0].shape[1:])

    def _view(self, state: State, players: NDArray[np.int64]) -> NDArray[Any]:
        seen = called(self.name, "view()", lambda: self._simulator.view(state, players))
        return np.asarray(self._check_values.observations(seen, len(players)))

    def _step(
        self,
        obs: NDArray[Any],
        rewards: NDArray[np.float32],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        final: NDArray[Any],
        first: NDArray[np.bool_],
    ) -> StepBatch:
        over = (terminated | truncated).repeat(PLAYERS)
        return StepBatch(
            slot=self._waiting,
            agent_id=self._agent_id,
            reward=rewards.reshape(-1),
            terminated=terminated.repeat(PLAYERS),
            truncated=truncated.repeat(PLAYERS),
            final_obs=final,
            obs=obs,
            first=first.repeat(PLAYERS),
            needs_action=np.ones(len(self._waiting), np.bool_),
            env_step=self._t.repeat(PLAYERS),
            episode_over=over,
        )

    def _copied(self) -> dict[str, Any]:
        return {"state": {name: array.copy() for name, array in self._state.items()}}

    def _take_over(self, state: Mapping[str, Any], kept: int) -> None:
        every = np.arange(self.num_slots)
        self._seats.deal(every, episode_seeds(self._seed, every, self._episode))
        own = {name: np.asarray(state["state"][name])[:kept] for name in self._state}
        put(self._state, slice(0, kept), own)

    def render(self, slot: int) -> NDArray[np.uint8] | None:
        if self._phase is Phase.RESET:
            return None
        return self._simulator.draw(take(self._state, slice(slot, slot + 1)))
