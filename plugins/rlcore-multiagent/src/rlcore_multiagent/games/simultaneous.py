"""Games in which all agents act in every step and end together, as arrays over all copies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns
from rlcore.env import DEFAULT_GROUP, BatchedEnv, Spaces, StepBatch
from rlcore_multiagent.answers import Answers


class Moved(NamedTuple):
    """What a step led to: ``rewards`` float32 ``[slots, agents]``, and by slot whether the game has ended for good or
    by a limit."""

    rewards: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


class SimultaneousGame(BatchedEnv):
    """Subclasses give ``begin``, ``move`` and ``observe``; what they hold of the games are the arrays ``games``.

    All agents have the same spaces, and a row in every poll.
    """

    def __init__(self, num_envs: int, agents: Sequence[str], spaces: Spaces) -> None:
        self.num_slots = num_envs
        self.name = type(self).__name__
        self.groups = {DEFAULT_GROUP: spaces}
        self.agents = {DEFAULT_GROUP: tuple(agents)}
        self.rng = np.random.default_rng(0)
        #: By name, arrays ``[slots, ...]``: all that a game's future depends on beside the generator.
        self.games: dict[str, NDArray[Any]] = {}
        self.lockstep = len(agents) == 1
        self._count = len(agents)
        self._slot = np.repeat(np.arange(num_envs), self._count)
        self._agent_id = np.tile(np.array(agents), num_envs)
        self._all, self._none = np.ones(len(self._slot), np.bool_), np.zeros(len(self._slot), np.bool_)
        self._env_step = np.zeros(num_envs, np.int64)
        self._answers = Answers(self.name, self.groups)
        self._ready: StepBatch | None = None
        self._started = False

    @abstractmethod
    def begin(self, slots: NDArray[np.int64]) -> None:
        """New games in ``slots``."""

    @abstractmethod
    def move(self, actions: NDArray[Any]) -> Moved:
        """A step of all games with ``actions [slots, agents, ...]``."""

    @abstractmethod
    def observe(self) -> NDArray[Any]:
        """What everyone sees, ``[slots, agents, ...]``; a new array."""

    def reset(self, seed: int | None) -> None:
        self.rng = np.random.default_rng(seed)
        self._env_step[:] = 0
        self._started = True
        self.begin(np.arange(self.num_slots))
        self._ready = self._waiting()

    def _waiting(self) -> StepBatch:
        """Everyone waits for an action, and nothing has come before."""
        obs = self._flat(self.observe())
        first = np.repeat(self._env_step == 0, self._count)
        return self._step(np.zeros(len(self._slot), np.float32), self._none, self._none, obs[:0], obs, first)

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        if self._ready is None:
            raise TimeoutError(f"{self.name}: {self._answers.missing} rows wait for an action, nothing is ready")
        polled, self._ready = {DEFAULT_GROUP: self._ready}, None
        self._answers.await_for(polled)
        return polled

    def send(self, actions: Mapping[str, tuple[NDArray[Any], Columns]]) -> None:
        if self._ready is not None:
            self._answers.await_for({})
        self._answers.take(actions)
        if not self._answers.complete or not self._started or self._ready is not None:
            return
        _, chosen = self._answers.given[DEFAULT_GROUP]
        assert not isinstance(chosen, dict)
        rewards, terminated, truncated = self.move(chosen.reshape(self.num_slots, self._count, *chosen.shape[1:]))
        self._env_step += 1
        over = terminated | truncated
        obs = self.observe()
        final = self._flat(obs[over])
        if over.any():
            self._env_step[over] = 0
            self.begin(np.flatnonzero(over))
            obs = self.observe()
        flags = (np.repeat(flag, self._count) for flag in (terminated, truncated & ~terminated, over))
        self._ready = self._step(rewards.reshape(-1), next(flags), next(flags), final, self._flat(obs), next(flags))

    def _step(
        self,
        reward: NDArray[np.float32],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        final_obs: NDArray[Any],
        obs: NDArray[Any],
        first: NDArray[np.bool_],
    ) -> StepBatch:
        return StepBatch(
            slot=self._slot,
            agent_id=self._agent_id,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            final_obs=final_obs,
            obs=obs,
            first=first,
            needs_action=self._all,
            env_step=np.repeat(self._env_step, self._count),
            episode_over=terminated | truncated,
        )

    def _flat(self, obs: NDArray[Any]) -> NDArray[Any]:
        return obs.reshape(-1, *obs.shape[2:])

    def get_state(self) -> dict[str, Any] | None:
        return {
            "started": self._started,
            "rng": self.rng.bit_generator.state,
            "games": {name: array.copy() for name, array in self.games.items()},
            "env_step": self._env_step.copy(),
        }

    def set_state(self, state: dict[str, Any]) -> list[int]:
        """Slots that the state does not have begin anew."""
        if not state["started"]:
            return []
        self.rng.bit_generator.state = state["rng"]
        kept = min(self.num_slots, len(state["env_step"]))
        more = np.arange(kept, self.num_slots)
        self._started = True
        self._env_step[:] = 0
        self.begin(np.arange(self.num_slots) if not self.games else more)
        if not len(more):
            self.rng.bit_generator.state = state["rng"]
        for name, array in state["games"].items():
            self.games[name][:kept] = array[:kept]
        self._env_step[:kept] = state["env_step"][:kept]
        self._ready = self._waiting()
        return [int(slot) for slot in more]

    def close(self) -> None:
        self._ready = None
