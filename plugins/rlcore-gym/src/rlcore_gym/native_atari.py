"""ALE's own vector environment, which steps many games in threads without Python."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns, take
from rlcore.errors import ConfigError
from rlcore_gym.failures import FAILURES, raised
from rlcore_gym.lockstep import LockstepEnv, Phase
from rlcore_gym.seeds import Follow, following_seed, slot_seeds
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
    if atari.life_loss_ends:
        raise ConfigError(
            "env_settings.atari.life_loss_ends: after a lost life ALE's vector environment goes on with the game, "
            "where the wrapper begins a new one; take vectorization sync, thread or process"
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


def seed_of_a_game(seed: int) -> int:
    """``seed``, or one that follows from it, of which ALE makes a seed that its vector environment takes as well.

    ``AtariEnv.reset(seed=seed)`` derives a signed number; the vector environment takes negative ones for none at all.
    """
    while _derived(seed) < 0:
        seed = following_seed(seed, Follow.GAME)
    return seed


def _derived(seed: int) -> int:
    """What ``AtariEnv.seed_game`` gives the emulator."""
    _, game = np.random.SeedSequence(seed).generate_state(n_words=2)
    return int(game.astype(np.int32))


class NativeAtari(LockstepEnv):
    """``env`` is an ``AtariVectorEnv``; slots are seeded as separate games are, and reset in the step that ends them.

    It tells nothing of the state of its emulators, so that there is nothing to be saved: after ``set_state`` all
    episodes begin anew.
    """

    def __init__(self, env: Any, name: str, time_limit: int | None, frame_stack: object) -> None:
        space = env.single_observation_space
        #: Without a stack of frames the axis of the one frame is dropped.
        self._flat = frame_stack is None
        if self._flat:
            space = type(space)(0, 255, space.shape[1:], space.dtype)
        super().__init__(check_spaces(space, env.single_action_space, name), env.num_envs, name)
        self._env = env
        self._limit = time_limit or NEVER
        self._obs: Columns = self._board.obs

    def _observations(self) -> Columns:
        return self._obs

    def _shown(self, obs: NDArray[Any]) -> NDArray[Any]:
        return obs[:, 0] if self._flat else obs

    def _open(self, seed: int | None) -> None:
        seeds = np.array([_derived(seed_of_a_game(own)) for own in slot_seeds(seed, self.num_slots)])
        self._reset(seeds, None)

    def _reset(self, seeds: NDArray[Any] | None, mask: NDArray[np.bool_] | None) -> None:
        try:
            obs, _ = self._env.reset(seed=seeds, options=None if mask is None else {"reset_mask": mask})
        except FAILURES as error:
            raise raised(f"{self.name}, {self.num_slots} copies in one", "reset()", error) from error
        self._obs = self._shown(obs)

    def _advance(self, actions: Columns, timeout: float | None) -> Columns:
        board = self._board
        try:
            obs, board.reward[:], board.terminated[:], board.truncated[:], _ = self._env.step(actions)
        except FAILURES as error:
            raise raised(f"{self.name}, {self.num_slots} copies in one", "step()", error) from error
        self._obs = self._shown(obs)
        board.env_step += 1
        board.truncated |= board.env_step >= self._limit
        np.logical_or(board.terminated, board.truncated, out=board.over)
        np.copyto(board.first, board.over)
        if not board.over.any():
            return self._no_final
        final = take(self._obs, board.over)
        board.env_step[board.over] = 0
        # Done now, by the mask, they are not reset by the next step.
        self._reset(None, board.over.copy())
        return final

    def get_state(self) -> dict[str, Any] | None:
        return None

    def set_state(self, state: dict[str, Any]) -> list[int]:
        self.reset(None)
        return self._slot.tolist()

    def close(self) -> None:
        self._phase = Phase.RESET
        self._env.close()
