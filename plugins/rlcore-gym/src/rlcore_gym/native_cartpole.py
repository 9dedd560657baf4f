"""Gymnasium's vector CartPole with a generator for each slot, as separate copies have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.utils.seeding import np_random
from numpy.typing import NDArray

from rlcore.columns import Array, Columns, take
from rlcore.errors import CheckpointError
from rlcore_gym.failures import FAILURES, raised
from rlcore_gym.lockstep import LockstepEnv, Phase
from rlcore_gym.rendering import frames_per_second, rgb
from rlcore_gym.seeds import slot_seeds
from rlcore_gym.spaces import check_spaces

#: Names the kind of state, so that one of another kind is not taken for it.
SOURCE = "CartPoleVectorEnv"


class NativeCartPole(LockstepEnv):
    """The physics is that of ``env``, a ``CartPoleVectorEnv``, for all slots at once; resets are drawn here.

    ``env`` itself draws all resets from one generator, which makes each slot's depend on the others. The formulas are
    those of the single CartPole, and so are its results, to the last bit.
    """

    def __init__(self, env: Any, name: str, time_limit: int | None) -> None:
        spaces = check_spaces(env.single_observation_space, env.single_action_space, name)
        super().__init__(spaces, env.num_envs, name)
        self.frames_per_second = frames_per_second(env)
        self._env = env
        if time_limit is not None:
            env.max_episode_steps = min(env.max_episode_steps, time_limit)
        self._generators: list[np.random.Generator] = []

    def _open(self, seed: int | None) -> None:
        self._env.reset(seed=0)  # its own random numbers are not used
        self._generators = [np_random(own)[0] for own in slot_seeds(seed, self.num_slots)]
        self._begin(self._slot)

    def _begin(self, slots: NDArray[np.int64]) -> None:
        """Opens episodes, as ``CartPoleEnv.reset`` does."""
        env = self._env
        for slot in slots.tolist():
            env.state[:, slot] = self._generators[slot].uniform(low=env.low, high=env.high, size=(4,))
        env.steps[slots] = 0
        self._board.obs[slots] = env.state.T[slots]  # type: ignore[index]  # one array, as of every Box

    def _advance(self, actions: Columns, timeout: float | None) -> Columns:
        board, env = self._board, self._env
        env.prev_done[:] = False  # so that it resets none
        obs, reward, board.terminated[:], board.truncated[:], _ = env.step(actions)
        board.obs[...] = obs  # type: ignore[index]  # one array, as of every Box
        np.add(reward, 0.0, out=board.reward)  # no negative zeros
        np.logical_or(board.terminated, board.truncated, out=board.over)
        np.copyto(board.first, board.over)
        board.env_step += 1
        if not board.over.any():
            return self._no_final
        ended = np.flatnonzero(board.over)
        final = take(board.obs, ended)
        board.env_step[ended] = 0
        self._begin(ended)
        return final

    # -- states

    def get_state(self) -> dict[str, Any] | None:
        if not self._savable():
            return None
        return {
            "source": SOURCE,
            "state": np.array(self._env.state),
            "steps": self._env.steps.copy(),
            "generators": {str(slot): own.bit_generator.state for slot, own in enumerate(self._generators)},
        }

    def set_state(self, state: dict[str, Any]) -> list[int]:
        """Takes over the slots that the state has; others are opened anew and returned.

        ``CheckpointError`` for a tree that is no state of this environment.
        """
        self._phase = Phase.RESET
        try:
            if state["source"] != SOURCE:
                raise CheckpointError(f"the state of an environment is of a {state['source']}, not of a {SOURCE}")
            kept = min(self.num_slots, len(state["steps"]))
            self._open(None)
            self._take_over(state, kept)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise CheckpointError(f"the state of an environment is incomplete: {error!r}") from error
        self._board.env_step[:] = self._env.steps
        np.equal(self._env.steps, 0, out=self._board.first)
        self._needs_action[:] = True
        self._show()
        return list(range(kept, self.num_slots))

    def _take_over(self, state: Mapping[str, Any], kept: int) -> None:
        env = self._env
        env.state[:, :kept] = state["state"][:, :kept]
        env.steps[:kept] = state["steps"][:kept]
        for slot in range(kept):
            self._generators[slot].bit_generator.state = state["generators"][str(slot)]
        self._board.obs[...] = env.state.T  # type: ignore[index]  # one array, as of every Box

    # -- the rest

    def render(self, slot: int) -> Array | None:
        if self._env.render_mode is None:
            return None
        try:
            return rgb(self._env.render()[slot])
        except FAILURES as error:
            raise raised(f"{self.name}, slot {slot}", "render()", error) from error

    def close(self) -> None:
        self._phase = Phase.RESET
        self._env.close()
