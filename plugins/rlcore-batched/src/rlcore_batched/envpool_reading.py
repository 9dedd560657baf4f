"""How a pool of EnvPool is seeded and read: plain environments as they are, Atari as every other emulator shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Array, Columns, column_name
from rlcore_gym import AtariSettings, emulator_seeds, forget_frames

#: Frames after which ALE's ids truncate an episode, and their probability that an action is repeated (Machado et al.
#: 2018, sections 5.1 and 5.2).
MAX_FRAMES, STICKY = 108_000, 0.25


class Reading:
    """Nothing is changed."""

    def seeds(self, seed: int | None, count: int) -> list[int]:
        """A seed below 2**31 for each copy."""
        words = np.random.SeedSequence(seed).generate_state(count, np.uint32) >> 1
        return [int(word) for word in words]

    def observations(self, seen: Any, ages: NDArray[np.int64]) -> Columns:
        """What rows show whose episodes are ``ages [n]`` steps old, of what the pool gave."""
        return _flat(seen)

    def lives(self, info: Mapping[str, Any]) -> NDArray[Any] | None:
        """By row, the lives that are left, where an episode ends with each; else None."""
        return None


class AtariReading(Reading):
    """Frames in the order and at the place of :class:`rlcore_gym.FrameStack`, and seeds of ALE's other environments.

    EnvPool fills a stack with the first frame of an episode, and puts the colours of a frame first; here zeros are
    before the first frame, and colours last.
    """

    def __init__(self, atari: AtariSettings, frame_stack: int | None) -> None:
        self._atari = atari
        self._flat = frame_stack is None
        self._size = frame_stack or 1
        width, height = atari.size()
        frame = (height, width) if atari.grayscale else (height, width, 3)
        shape = frame if self._flat else (self._size, *frame)
        self.observation_space = gymnasium.spaces.Box(0, 255, shape, np.uint8)

    def keywords(self) -> dict[str, Any]:
        """What EnvPool is told."""
        width, height = self._atari.size()
        return {
            "frame_skip": self._atari.frame_skip,
            # None at all is not to be had: EnvPool plays a frame more than the number it draws.
            "noop_max": max(self._atari.noop_max, 1),
            "img_width": width,
            "img_height": height,
            "gray_scale": self._atari.grayscale,
            "stack_num": self._size,
            "use_inter_area_resize": True,
            "episodic_life": False,
            "zero_discount_on_life_loss": False,
            "use_fire_reset": False,
            "reward_clip": False,
        }

    def max_steps(self, max_frames: int, time_limit: int | None) -> int:
        """Steps after which EnvPool truncates an episode."""
        steps = -(-max_frames // self._atari.frame_skip)
        return steps if time_limit is None else min(steps, time_limit)

    def seeds(self, seed: int | None, count: int) -> list[int]:
        return emulator_seeds(seed, count)

    def observations(self, seen: Any, ages: NDArray[np.int64]) -> Columns:
        frames = np.asarray(seen)
        if not self._atari.grayscale:
            n, _, height, width = frames.shape
            frames = frames.reshape(n, self._size, 3, height, width).transpose(0, 1, 3, 4, 2)
        if self._flat:
            return frames[:, 0]
        forget_frames(frames, ages)
        return frames

    def lives(self, info: Mapping[str, Any]) -> NDArray[Any] | None:
        return np.asarray(info["lives"]) if self._atari.life_loss_ends else None


def _flat(value: Any) -> Columns:
    """Nested dictionaries of arrays as ``{dotted name: array}``; a plain array as it is."""
    if not isinstance(value, Mapping):
        return np.asarray(value)
    flat: dict[str, Array] = {}
    for key, child in value.items():
        leaves = _flat(child)
        for leaf, array in (leaves if isinstance(leaves, dict) else {"": leaves}).items():
            flat[column_name(str(key), leaf)] = array
    return flat
