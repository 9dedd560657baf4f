"""The last few observations as one, for environments whose single observation does not show what moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.acting.unseen import is_unseen
from rlcore.columns import leaf_spaces, map_leaf_spaces
from rlcore.errors import ConfigError

Array = NDArray[Any]


class FrameStack(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Stacks the last ``size`` observations along a new first axis, the newest last.

    Of a Dict or Tuple observation all leaves are stacked but those that are no feature (:mod:`rlcore.acting.unseen`),
    of which the newest count alone, or those that ``size`` names: ``{dotted leaf: size}``. The rule for the beginning
    of an episode: what was before it is zeros (ALE's own vector environment does the same). No frame of an episode is
    ever seen in another, and the arrays that are returned are not written to again.

    Raises ``ConfigError`` for a leaf that is not there or has no fixed shape.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], size: int | Mapping[str, int]) -> None:
        super().__init__(env)
        leaves = leaf_spaces(env.observation_space)
        stacked = [leaf for leaf in leaves if not is_unseen(leaf)]
        self._sizes = dict.fromkeys(stacked, size) if isinstance(size, int) else dict(size)
        for leaf, own in self._sizes.items():
            if leaf not in leaves:
                there = ", ".join(f"'{name}'" for name in leaves)
                raise ConfigError(f"env_settings.frame_stack: the observation has no part '{leaf}', only {there}")
            if leaves[leaf].shape is None or leaves[leaf].dtype is None:
                raise ConfigError(f"env_settings.frame_stack: {leaves[leaf]} has no fixed shape to stack")
            if own < 1:
                raise ConfigError(f"env_settings.frame_stack: {own} observations cannot be stacked")
        self.observation_space = map_leaf_spaces(self._stacked_space, env.observation_space)
        self._frames: dict[str, Array] = {}
        self._stack = self._stacker(env.observation_space, "")

    def _stacked_space(self, leaf: str, space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
        size = self._sizes.get(leaf)
        return space if size is None else gymnasium.vector.utils.batch_space(space, size)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(seed=seed, options=options)
        self._frames = {}
        return self._stack(obs), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._stack(obs), reward, terminated, truncated, info

    def _stacker(self, space: gymnasium.Space[Any], leaf: str) -> Callable[[Any], Any]:
        """What turns an observation of ``space`` into the stacked one; the space is looked at once."""
        match space:
            case gymnasium.spaces.Dict():
                parts = {key: self._stacker(child, _below(leaf, key)) for key, child in space.spaces.items()}
                return lambda obs: {key: stack(obs[key]) for key, stack in parts.items()}
            case gymnasium.spaces.Tuple():
                stacks = [self._stacker(child, _below(leaf, index)) for index, child in enumerate(space.spaces)]
                return lambda obs: tuple(stack(part) for stack, part in zip(stacks, obs, strict=True))
        if leaf not in self._sizes:
            return lambda obs: obs
        shape, dtype = (self._sizes[leaf], *(space.shape or ())), space.dtype
        return lambda obs: self._push(leaf, obs, shape, dtype)

    def _push(self, leaf: str, obs: Any, shape: tuple[int, ...], dtype: Any) -> Array:
        before = self._frames.get(leaf)
        frames = np.empty(shape, dtype)
        if before is None:
            frames[:-1] = 0
        else:
            frames[:-1] = before[1:]
        frames[-1] = obs
        self._frames[leaf] = frames
        return frames

    def get_frames(self) -> dict[str, Array]:
        """The stacks as they are, by leaf."""
        return {leaf: frames.copy() for leaf, frames in self._frames.items()}

    def set_frames(self, frames: Mapping[str, Array]) -> None:
        """Goes on from what ``get_frames`` gave."""
        self._frames = {leaf: np.array(own) for leaf, own in frames.items()}


def forget_frames(stacks: Array, ages: NDArray[np.integer[Any]]) -> None:
    """Zeros, in ``stacks [n, size, ...]``, the frames from before an episode that is ``ages [n]`` steps old.

    For sources that stack frames themselves, so that what they show is what :class:`FrameStack` shows.
    """
    size = stacks.shape[1]
    if int(ages.min(initial=size)) >= size - 1:
        return
    for age in range(size - 1):
        stacks[ages == age, : size - 1 - age] = 0


def _below(leaf: str, key: object) -> str:
    return f"{leaf}.{key}" if leaf else str(key)
