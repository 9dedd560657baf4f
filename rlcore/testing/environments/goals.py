"""A task whose goal changes with every episode, and that chance hardly ever reaches."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Dict, Discrete, MultiBinary
from numpy.typing import NDArray

Observation = dict[str, Any]


def bits_reached(achieved: NDArray[Any], desired: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether the goals ``desired [n, bits]`` are what was ``achieved [n, bits]``, bool ``[n]``."""
    reached: NDArray[np.bool_] = (achieved == desired).all(axis=-1)
    return reached


def bits_reward(achieved: NDArray[Any], desired: NDArray[Any]) -> NDArray[np.float32]:
    """0 where the goal is reached and -1 elsewhere, float32 ``[n]``."""
    return np.where(bits_reached(achieved, desired), np.float32(0.0), np.float32(-1.0))


class BitFlip(gymnasium.Env[Observation, Any]):
    """An action flips one of ``bits``, and an episode of as many steps begins with bits and a goal drawn at random
    (Andrychowicz et al. 2017, section 3.1).

    Observations are ``achieved_goal`` and ``desired_goal``, int8 ``[bits]`` each. Every step costs 1 but the one that
    reaches the goal, with which the episode terminates; it is truncated after ``bits`` steps. The goal differs from
    the beginning.

    Of a goal that is ``k`` bits away the best return is ``1 - k``; where it is never reached, the return is ``-bits``.
    """

    metadata = {"render_modes": []}

    def __init__(self, bits: int = 12, render_mode: str | None = None) -> None:
        if bits < 1:
            raise ValueError(f"BitFlip: bits must be 1 or more, got {bits}")
        self.observation_space = Dict(achieved_goal=MultiBinary(bits), desired_goal=MultiBinary(bits))
        self.action_space = Discrete(bits)
        self.render_mode = render_mode
        self._size = bits
        self._bits = self._goal = np.zeros(bits, np.int8)
        self._t = bits

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._goal = self.np_random.integers(0, 2, self._size, np.int8)
        self._bits = self._goal
        while bits_reached(self._bits, self._goal):
            self._bits = self.np_random.integers(0, 2, self._size, np.int8)
        self._t = 0
        return self._observation(), {}

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        if not 0 <= action < self._size:
            raise ValueError(f"BitFlip: action {action} is not in 0 to {self._size - 1}")
        if self._t == self._size:
            raise ValueError("BitFlip: the episode is over, or none has begun; call reset()")
        self._t += 1
        self._bits = self._bits.copy()
        self._bits[action] ^= 1
        reached = bool(bits_reached(self._bits, self._goal))
        over = self._t == self._size
        if reached:
            self._t = self._size
        return self._observation(), -float(not reached), reached, over and not reached, {}

    def _observation(self) -> Observation:
        return {"achieved_goal": self._bits.copy(), "desired_goal": self._goal.copy()}
