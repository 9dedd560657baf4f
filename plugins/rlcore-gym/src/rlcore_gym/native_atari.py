"""ALE's own vector environment, which steps many games in threads without Python."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns, take
from rlcore.errors import ConfigError
from rlcore_gym.atari_seeds import emulator_seeds
from rlcore_gym.failures import FAILURES, raised
from rlcore_gym.frame_stack import forget_frames
from rlcore_gym.lockstep import LockstepEnv, Phase
from rlcore_gym.settings import GymSettings
from rlcore_gym.spaces import check_spaces
from rlcore_gym.stepping import NEVER


def is_atari(spec: Any) -> bool:
    """Whether the vector implementation of ``spec`` is ALE's."""
    return bool(spec.vector_entry_point == "ale_py.vector_env:AtariVectorEnv")


def atari_keywords(env_id: str, own: GymSettings, num_envs: int) -> dict[str, Any]:
    """What ALE's vector environment is told, so that it does as the wrappers of a single game do.

    ``ConfigError`` for what it cannot.
    """
    atari = own.atari
    if atari is None:
        raise ConfigError(
            f"env_settings.atari: the native implementation of {env_id} preprocesses whatever it is told; "
            "say so with 'atari: true', or give what differs: 'atari: {noop_max: 0}'"
        )
    if isinstance(own.frame_stack, dict):
        raise ConfigError("env_settings.frame_stack: a game has one observation; give a number")
    width, height = atari.size()
    return {
        "frameskip": atari.frame_skip,
        "maxpool": atari.frame_skip > 1,
        "noop_max": atari.noop_max,
        "img_width": width,
        "img_height": height,
        "grayscale": atari.grayscale,
        "stack_num": own.frame_stack or 1,
        "num_threads": own.worker_count(num_envs),
        "episodic_life": False,
        "use_fire_reset": False,
        "reward_clipping": False,
    }


class NativeAtari(LockstepEnv):
    """``env`` is an ``AtariVectorEnv``; slots are seeded as separate games are, and reset in the step that ends them.

    It tells nothing of the state of its emulators, so that there is nothing to be saved: after ``set_state`` all
    episodes begin anew.
    """

    def __init__(self, env: Any, name: str, own: GymSettings) -> None:
        space = env.single_observation_space
        #: Without a stack of frames the axis of the one frame is dropped.
        self._flat = own.frame_stack is None
        if self._flat:
            space = type(space)(0, 255, space.shape[1:], space.dtype)
        super().__init__(check_spaces(space, env.single_action_space, name), env.num_envs, name)
        self._env = env
        self._limit = own.time_limit or NEVER
        self._life_loss_ends = own.atari is not None and own.atari.life_loss_ends
        self._lives: NDArray[Any] = np.zeros(env.num_envs, np.int64)
        self._obs: Columns = self._board.obs

    def _observations(self) -> Columns:
        return self._obs

    def _show_frames(self, stacks: NDArray[Any]) -> None:
        """What is seen of ``stacks [slots, size, ...]`` at the steps that the board says."""
        if self._life_loss_ends:
            # The next episode goes on with the game, but not with what was seen before.
            forget_frames(stacks, self._board.env_step)
        self._obs = stacks[:, 0] if self._flat else stacks

    def _open(self, seed: int | None) -> None:
        self._board.env_step[:] = 0
        self._reset(np.array(emulator_seeds(seed, self.num_slots)), None)

    def _reset(self, seeds: NDArray[Any] | None, mask: NDArray[np.bool_] | None) -> None:
        try:
            stacks, info = self._env.reset(seed=seeds, options=None if mask is None else {"reset_mask": mask})
        except FAILURES as error:
            raise raised(f"{self.name}, {self.num_slots} copies in one", "reset()", error) from error
        self._lives = info["lives"]
        self._show_frames(stacks)

    def _advance(self, actions: Columns, timeout: float | None) -> Columns:
        board = self._board
        try:
            stacks, board.reward[:], board.terminated[:], board.truncated[:], info = self._env.step(actions)
        except FAILURES as error:
            raise raised(f"{self.name}, {self.num_slots} copies in one", "step()", error) from error
        board.env_step += 1
        self._show_frames(stacks)
        lost = self._lost_lives(info["lives"])
        board.terminated |= lost
        board.truncated |= board.env_step >= self._limit
        np.logical_or(board.terminated, board.truncated, out=board.over)
        np.copyto(board.first, board.over)
        if not board.over.any():
            return self._no_final
        final = take(self._obs, board.over)
        board.env_step[board.over] = 0
        ended = board.over & ~lost
        if ended.any():
            # Done now, by the mask, they are not reset by the next step.
            self._reset(None, ended)
        else:
            self._show_frames(stacks)
        return final

    def _lost_lives(self, lives: NDArray[Any]) -> NDArray[np.bool_]:
        """Which slots have lost a life of a game that goes on."""
        before, self._lives = self._lives, lives
        if not self._life_loss_ends:
            return np.zeros(self.num_slots, np.bool_)
        return (lives > 0) & (lives < before) & ~self._board.terminated & ~self._board.truncated

    def get_state(self) -> dict[str, Any] | None:
        return None

    def set_state(self, state: dict[str, Any]) -> list[int]:
        self.reset(None)
        return self._slot.tolist()

    def close(self) -> None:
        self._phase = Phase.RESET
        self._env.close()
