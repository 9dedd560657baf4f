"""An environment of any spaces, in which everything is drawn at random: for whatever has to see some experience."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.acting.masks import is_mask
from rlcore.columns import Array, Columns, leaf_spaces
from rlcore.env import DEFAULT_GROUP, BatchedEnv, StepBatch
from rlcore.testing.environments.masks import allow_something, flags, forbidden
from rlcore.testing.environments.steps import check_groups, check_sent, elements, seed_bits

#: How likely a step is to end an episode, by termination and by truncation.
TERMINATES, TRUNCATES = 0.08, 0.06


class Drawn(BatchedEnv):
    """``num_envs`` slots in lockstep; observations are drawn from their space, rewards from a standard normal.

    Episodes end at random, by termination and by truncation, and begin anew in the same step. Actions are checked to
    be of their space and to obey the mask, where observations have an ``action_mask``, and have no influence. Each slot
    draws from generators of its own.
    """

    lockstep = True

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        num_envs: int = 1,
    ) -> None:
        self.groups = {DEFAULT_GROUP: (observation_space, action_space)}
        self.num_slots = num_envs
        self.name = type(self).__name__
        self._actions = leaf_spaces(action_space)
        self._spaces = [leaf_spaces(copy.deepcopy(observation_space)) for _ in range(num_envs)]
        self._masked = any(map(is_mask, self._spaces[0]))
        self._rngs = [np.random.default_rng(0) for _ in range(num_envs)]
        self._t = np.zeros(num_envs, np.int64)
        self._obs = self._nothing()
        self._waiting = False
        self._ready: StepBatch | None = None

    def reset(self, seed: int | None) -> None:
        for slot, own in enumerate(np.random.SeedSequence(seed_bits(seed)).spawn(self.num_slots)):
            numbers = own.generate_state(1 + len(self._spaces[slot])).tolist()
            self._rngs[slot] = np.random.default_rng(numbers[0])
            for space, number in zip(self._spaces[slot].values(), numbers[1:], strict=True):
                space.seed(number)
        self._t[:] = 0
        self._obs = self._draw(range(self.num_slots))
        nothing = np.zeros(self.num_slots, np.bool_)
        self._hand_over(np.zeros(self.num_slots, np.float32), nothing, nothing, self._nothing())

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        if self._ready is None:
            raise TimeoutError(f"{self.name}: {self.num_slots} slots wait for an action, nothing is ready")
        step, self._ready, self._waiting = self._ready, None, True
        return {DEFAULT_GROUP: step}

    def send(self, actions: Mapping[str, tuple[NDArray[Any], Columns]]) -> None:
        check_groups(self.name, self.groups, actions)
        slots, chosen = actions[DEFAULT_GROUP]
        check_sent(self.name, np.arange(self.num_slots if self._waiting else 0), slots, chosen)
        self._check(chosen)
        self._waiting = False
        chances = np.array([rng.random() for rng in self._rngs])
        reward = np.array([rng.standard_normal() for rng in self._rngs], np.float32)
        terminated = chances < TERMINATES
        truncated = ~terminated & (chances < TERMINATES + TRUNCATES)
        self._t += 1
        after = self._draw(range(self.num_slots))
        ended = np.flatnonzero(terminated | truncated)
        final = {leaf: array[ended] for leaf, array in after.items()}
        for leaf, opening in self._draw(ended.tolist()).items():
            after[leaf][ended] = opening
        self._t[ended] = 0
        self._obs = after
        self._hand_over(reward, terminated, truncated, final)

    def _check(self, chosen: Columns) -> None:
        leaves = chosen if isinstance(chosen, dict) else {"": chosen}
        for leaf, space in self._actions.items():
            bad = [action for action in elements(leaves[leaf]) if not space.contains(action)]
            if bad:
                raise ValueError(f"{self.name}: action {bad[0]} is not in {space}")
        for slot in range(self.num_slots if self._masked else 0):
            allowed = flags({leaf: array[slot] for leaf, array in self._obs.items()}, self._actions)
            for leaf, space in self._actions.items():
                if forbidden(leaves[leaf][slot], space, allowed[leaf]) is not None:
                    raise ValueError(f"{self.name}: the mask forbids action {leaves[leaf][slot]} of slot {slot}")

    def _draw(self, slots: Any) -> dict[str, Array]:
        drawn = self._nothing(len(slots))
        for row, slot in enumerate(slots):
            for leaf, space in self._spaces[slot].items():
                drawn[leaf][row] = space.sample()
            if self._masked:
                views = {leaf: array[row] for leaf, array in drawn.items()}
                allow_something(views, self._actions, self._rngs[slot])
        return drawn

    def _nothing(self, rows: int = 0) -> dict[str, Array]:
        return {leaf: np.empty((rows, *(s.shape or ())), s.dtype) for leaf, s in self._spaces[0].items()}

    def _hand_over(
        self, reward: NDArray[np.float32], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_], final: Any
    ) -> None:
        ended = terminated | truncated
        self._ready = StepBatch(
            slot=np.arange(self.num_slots),
            agent_id=np.zeros(self.num_slots, np.int64),
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            final_obs=_columns(final),
            obs=_columns({leaf: array.copy() for leaf, array in self._obs.items()}),
            first=self._t == 0,
            needs_action=np.ones(self.num_slots, np.bool_),
            env_step=self._t.copy(),
            episode_over=ended,
        )

    def get_state(self) -> dict[str, Any] | None:
        return {
            "t": self._t.copy(),
            "obs": {leaf: array.copy() for leaf, array in self._obs.items()},
            "rngs": [rng.bit_generator.state for rng in self._rngs],
            "spaces": [[s.np_random.bit_generator.state for s in own.values()] for own in self._spaces],
        }

    def set_state(self, state: dict[str, Any]) -> list[int]:
        if len(state["t"]) != self.num_slots:
            raise ValueError(f"{self.name}: the state has {len(state['t'])} slots, there are {self.num_slots}")
        self._t = np.array(state["t"])
        self._obs = {leaf: np.array(array) for leaf, array in state["obs"].items()}
        for slot in range(self.num_slots):
            self._rngs[slot].bit_generator.state = state["rngs"][slot]
            for space, own in zip(self._spaces[slot].values(), state["spaces"][slot], strict=True):
                space.np_random.bit_generator.state = own
        nothing = np.zeros(self.num_slots, np.bool_)
        self._hand_over(np.zeros(self.num_slots, np.float32), nothing, nothing, self._nothing())
        return []

    def close(self) -> None:
        self._ready = None


def _columns(leaves: dict[str, Array]) -> Columns:
    return leaves[""] if leaves.keys() == {""} else leaves
