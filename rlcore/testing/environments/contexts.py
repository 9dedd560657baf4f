"""One agent that is shown a context and paid for the action that it calls for: the smallest thing there is to learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from numpy.typing import NDArray

from rlcore.columns import Columns
from rlcore.env import DEFAULT_GROUP, BatchedEnv, StepBatch
from rlcore.model import BatchedModel
from rlcore.testing.environments.steps import check_groups, check_sent, noise, seed_bits


class Contexts(BatchedEnv):
    """``choices`` contexts as one-hot vectors, ``length`` steps an episode, ``num_envs`` slots in lockstep.

    With Discrete actions a step pays 1 for the action with the number of the context, else 0. With ``continuous`` an
    action in [-1, 1] is paid 1 less twice its distance from the context's target; targets lie evenly from -0.8 to 0.8.
    Episodes terminate and begin anew in the same step. ``get_state()["steps"]`` counts the steps of all slots.
    """

    lockstep = True

    def __init__(self, num_envs: int = 1, choices: int = 3, length: int = 8, continuous: bool = False) -> None:
        action_space: Space[Any] = Box(-1.0, 1.0, (1,), np.float32) if continuous else Discrete(choices)
        self.groups = {DEFAULT_GROUP: (Box(0.0, 1.0, (choices,), np.float32), action_space)}
        self.num_slots = num_envs
        self.name = type(self).__name__
        self._choices, self._length, self._continuous = choices, length, continuous
        self._targets = np.linspace(-0.8, 0.8, choices)
        self._seed = seed_bits(0)
        self._t = np.zeros(num_envs, np.int64)
        self._episode = np.zeros(num_envs, np.int64)
        self._steps = 0
        self._waiting = False
        self._ready: StepBatch | None = None

    def reset(self, seed: int | None) -> None:
        self._seed = seed_bits(seed)
        self._t[:] = self._episode[:] = 0
        self._hand_over(np.zeros(self.num_slots), np.zeros(self.num_slots, np.bool_), self._observe()[:0])

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        if self._ready is None:
            raise TimeoutError(f"{self.name}: {self.num_slots} slots wait for an action, nothing is ready")
        step, self._ready, self._waiting = self._ready, None, True
        return {DEFAULT_GROUP: step}

    def send(self, actions: Mapping[str, tuple[NDArray[Any], Columns]]) -> None:
        check_groups(self.name, self.groups, actions)
        slots, chosen = actions[DEFAULT_GROUP]
        check_sent(self.name, np.arange(self.num_slots if self._waiting else 0), slots, chosen)
        self._waiting = False
        context, taken = self._context(), np.asarray(chosen)
        if self._continuous:
            reward = 1.0 - 2.0 * np.abs(taken[:, 0] - self._targets[context])
        else:
            reward = (taken == context).astype(np.float64)
        self._t += 1
        self._steps += self.num_slots
        ended = self._t >= self._length
        final = self._observe()[ended]
        self._episode += ended
        self._t[ended] = 0
        self._hand_over(reward, ended, final)

    def _context(self) -> NDArray[np.int64]:
        bits = noise(np.asarray(self._seed, np.uint64), np.arange(self.num_slots), self._episode, self._t)
        return (bits % np.uint64(self._choices)).astype(np.int64)

    def _observe(self) -> NDArray[np.float32]:
        return np.eye(self._choices, dtype=np.float32)[self._context()]

    def _hand_over(self, reward: NDArray[Any], ended: NDArray[np.bool_], final: NDArray[np.float32]) -> None:
        self._ready = StepBatch(
            slot=np.arange(self.num_slots),
            agent_id=np.zeros(self.num_slots, np.int64),
            reward=reward.astype(np.float32),
            terminated=ended,
            truncated=np.zeros(self.num_slots, np.bool_),
            final_obs=final,
            obs=self._observe(),
            first=self._t == 0,
            needs_action=np.ones(self.num_slots, np.bool_),
            env_step=self._t.copy(),
            episode_over=ended.copy(),
        )

    def get_state(self) -> dict[str, Any] | None:
        return {"t": self._t.copy(), "episode": self._episode.copy(), "seed": self._seed, "steps": self._steps}

    def set_state(self, state: dict[str, Any]) -> list[int]:
        if len(state["t"]) != self.num_slots:
            raise ValueError(f"{self.name}: the state has {len(state['t'])} slots, there are {self.num_slots}")
        self._t, self._episode = np.array(state["t"]), np.array(state["episode"])
        self._seed, self._steps = int(state["seed"]), int(state["steps"])
        self._hand_over(np.zeros(self.num_slots), np.zeros(self.num_slots, np.bool_), self._observe()[:0])
        return []

    def model(self) -> BatchedModel | None:
        """The rules, of Discrete actions."""
        return None if self._continuous else ContextsModel(self._choices, self._length)

    def close(self) -> None:
        self._ready = None


class ContextsModel(BatchedModel):
    """The rules of :class:`Contexts` with Discrete actions; which context comes next is drawn.

    A state is ``[context, steps left]``, int64 ``[n, 2]``. Observations do not show how many are left: theirs are taken
    for those that an episode begins with.
    """

    players = 1

    def __init__(self, choices: int, length: int) -> None:
        self._choices, self._length = choices, length

    def initial(self, n: int, rng: np.random.Generator) -> Columns:
        return self._with(rng.integers(self._choices, size=n), np.full(n, self._length))

    def from_obs(self, obs: Columns) -> Columns:
        assert not isinstance(obs, dict)
        return self._with(obs.argmax(axis=1), np.full(len(obs), self._length))

    def legal(self, states: Columns) -> NDArray[np.bool_]:
        return np.ones((len(states), self._choices), np.bool_)

    def chance(self, states: Columns) -> None:
        return None

    def step(
        self, states: Columns, actions: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Columns, NDArray[np.float32]]:
        assert not isinstance(states, dict)
        paid = np.asarray(actions == states[:, 0], np.float32)
        return self._with(rng.integers(self._choices, size=len(states)), states[:, 1] - 1), paid[:, None]

    def to_play(self, states: Columns) -> NDArray[np.int64]:
        return np.zeros(len(states), np.int64)

    def observe(self, states: Columns) -> Columns:
        assert not isinstance(states, dict)
        return np.eye(self._choices, dtype=np.float32)[states[:, 0]]

    def terminal(self, states: Columns) -> NDArray[np.bool_]:
        assert not isinstance(states, dict)
        return np.asarray(states[:, 1] <= 0)

    @staticmethod
    def _with(context: NDArray[Any], left: NDArray[Any]) -> NDArray[np.int64]:
        return np.stack([context, left], axis=1).astype(np.int64)
