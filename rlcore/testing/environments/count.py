"""Count, the smallest environment with known right answers, as a BatchedEnv and as a Gymnasium environment.

The observation is ``10 + t`` as a float32 vector of length 1, each step is worth 1.0 whatever the action, and an
episode of the default length 3 sees 10, 11 and 12 and ends on 13. With ``V(s) = s``, ``gamma = 0.9`` and
``lambda = 0.95`` every target and advantage can be worked out by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from rlcore.columns import Columns
from rlcore.env import DEFAULT_GROUP, BatchedEnv, StepBatch
from rlcore.testing.environments.steps import check_groups, check_sent, step_from_tree, step_to_tree, still_waiting

#: The observation that opens an episode.
START_OBS = 10.0


def _spaces() -> tuple[Box, Discrete]:
    return Box(-np.inf, np.inf, (1,), np.float32), Discrete(2)


class Count(BatchedEnv):
    """Count in every slot, in lockstep.

    ``length`` is the number of steps of an episode, for all slots or one for each. Episodes end by termination, or by
    truncation where ``truncate`` is set; a slot starts again in the step that ends it, or with ``next_step`` in the
    following one, as Gymnasium's two autoreset modes do. ``actions_received`` counts the actions that were sent.

    A restored environment is polled next. Where its state was taken between a poll and the send that answers it, it
    hands over the waiting observations again, without the transition that led to them.
    """

    lockstep = True

    def __init__(
        self,
        num_envs: int = 1,
        length: int | Sequence[int] = 3,
        truncate: bool = False,
        next_step: bool = False,
    ) -> None:
        lengths = np.asarray([length] * num_envs if isinstance(length, int) else length, np.int64)
        if num_envs < 1 or lengths.shape != (num_envs,) or lengths.min() < 1:
            raise ValueError(f"Count needs an episode length of at least 1 for each of {num_envs} slots, got {length}")
        self.groups = {DEFAULT_GROUP: _spaces()}
        self.num_slots = num_envs
        self.name = type(self).__name__
        self.actions_received = 0
        self._lengths = lengths
        self._truncate = truncate
        self._next_step = next_step
        self._t = np.zeros(num_envs, np.int64)
        self._due = np.zeros(num_envs, np.bool_)  # waits for an action
        self._ready: StepBatch | None = None
        self._polled: StepBatch | None = None

    def reset(self, seed: int | None) -> None:
        self._t[:] = 0
        everywhere = np.ones(self.num_slots, np.bool_)
        self._hand_over(np.zeros(self.num_slots, np.float32), ~everywhere, everywhere, everywhere)

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        if self._ready is None:
            if self._due.any():
                raise TimeoutError(f"{self.name}: {int(self._due.sum())} slots wait for an action, nothing is ready")
            self._advance()
        self._polled, self._ready = self._ready, None
        assert self._polled is not None
        return {DEFAULT_GROUP: self._polled}

    def send(self, actions: Mapping[str, tuple[NDArray[Any], Columns]]) -> None:
        if self._ready is not None:
            raise ValueError(f"{self.name}: actions were sent before the last step was polled")
        check_groups(self.name, self.groups, actions)
        slots, chosen = actions[DEFAULT_GROUP]
        check_sent(self.name, np.flatnonzero(self._due), slots, chosen)
        space = self.groups[DEFAULT_GROUP][1]
        assert not isinstance(chosen, dict)
        if not all(space.contains(action) for action in np.asarray(chosen)):
            raise ValueError(f"{self.name}: actions {np.asarray(chosen).tolist()} are not all in {space}")
        self.actions_received += len(slots)
        self._advance()

    def _advance(self) -> None:
        """One step of the slots that were due; the others were over and open a new episode."""
        moved = self._due
        self._t = np.where(moved, self._t + 1, 0)
        ended = moved & (self._t >= self._lengths)
        opens = ended if not self._next_step else ~moved
        needs_action = ~ended if self._next_step else np.ones_like(ended)
        self._hand_over(moved.astype(np.float32), ended, opens, needs_action)

    def _hand_over(
        self,
        reward: NDArray[np.float32],
        ended: NDArray[np.bool_],
        opens: NDArray[np.bool_],
        needs_action: NDArray[np.bool_],
    ) -> None:
        final = self._observe(self._t[ended])
        self._t = np.where(opens, 0, self._t)
        nothing = np.zeros_like(ended)
        self._due = needs_action
        self._ready = StepBatch(
            slot=np.arange(self.num_slots),
            agent_id=np.zeros(self.num_slots, np.int64),
            reward=reward,
            terminated=nothing if self._truncate else ended,
            truncated=ended if self._truncate else nothing,
            final_obs=final,
            obs=self._observe(self._t),
            first=opens,
            needs_action=needs_action,
            env_step=self._t.copy(),
            episode_over=ended,
        )

    def _observe(self, t: NDArray[np.int64]) -> NDArray[np.float32]:
        return (START_OBS + t).astype(np.float32)[:, None]

    def get_state(self) -> dict[str, Any] | None:
        state: dict[str, Any] = {"t": self._t.copy(), "due": self._due.copy(), "received": self.actions_received}
        if self._ready is not None:
            state["ready"] = step_to_tree(self._ready)
        elif self._polled is not None:
            state["ready"] = step_to_tree(still_waiting(self._polled, self.lockstep))
        return state

    def set_state(self, state: dict[str, Any]) -> list[int]:
        if len(state["t"]) != self.num_slots:
            raise ValueError(f"{self.name}: the state has {len(state['t'])} slots, there are {self.num_slots}")
        self._t, self._due = np.array(state["t"], np.int64), np.array(state["due"], np.bool_)
        self.actions_received = int(state["received"])
        self._polled = None
        self._ready = step_from_tree(state["ready"]) if "ready" in state else None
        return []

    def close(self) -> None:
        self._ready = None


class AliasingCount(Count):
    """Count that hands out the same two observation arrays at every poll and writes the next observations into them."""

    def __init__(
        self,
        num_envs: int = 1,
        length: int | Sequence[int] = 3,
        truncate: bool = False,
        next_step: bool = False,
    ) -> None:
        super().__init__(num_envs, length, truncate, next_step)
        self._obs = np.zeros((num_envs, 1), np.float32)
        self._final = np.zeros((num_envs, 1), np.float32)

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        polled = super().poll(timeout)
        step = polled[DEFAULT_GROUP]
        ended = len(step.final_obs)
        self._obs[:] = np.asarray(step.obs)
        self._final[:ended] = np.asarray(step.final_obs)
        step.obs, step.final_obs = self._obs, self._final[:ended]
        return polled


class CountEnv(gymnasium.Env[Any, Any]):
    """Count as one Gymnasium environment."""

    def __init__(self, length: int = 3, truncate: bool = False) -> None:
        self.observation_space, self.action_space = _spaces()
        self.length = length
        self.truncate = truncate
        self.t = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self.observe(), {}

    def step(self, action: np.int64) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise ValueError(f"action {action!r} is not in {self.action_space}")
        self.t += 1
        over = self.t >= self.length
        return self.observe(), 1.0, over and not self.truncate, over and self.truncate, {}

    def observe(self) -> Any:
        """The observation of the step that the environment is at."""
        return np.asarray([START_OBS + self.t], np.float32)


class AliasingCountEnv(CountEnv):
    """CountEnv that returns one preallocated array from every ``reset`` and ``step``."""

    def __init__(self, length: int = 3, truncate: bool = False) -> None:
        super().__init__(length, truncate)
        self._obs = np.zeros(1, np.float32)

    def observe(self) -> NDArray[np.float32]:
        self._obs[0] = START_OBS + self.t
        return self._obs


class DictCountEnv(CountEnv):
    """CountEnv over ``Dict(a=Box, b=Box)``: ``a`` is ``10 + t``, ``b`` is twice ``-t``; both are written in place."""

    def __init__(self, length: int = 3, truncate: bool = False) -> None:
        super().__init__(length, truncate)
        box = self.observation_space
        pair = Box(-np.inf, np.inf, (2,), np.float32)
        self.observation_space = gymnasium.spaces.Dict({"a": box, "b": pair})
        self._obs = {"a": np.zeros(1, np.float32), "b": np.zeros(2, np.float32)}

    def observe(self) -> dict[str, NDArray[np.float32]]:
        self._obs["a"][:] = START_OBS + self.t
        self._obs["b"][:] = -self.t
        return self._obs
