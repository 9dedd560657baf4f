"""Catch: the smallest task that is seen in pictures of the size that convolutional networks are made for."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

#: Pixels of a side of the picture.
SIDE = 84
#: How bright they are, on black.
BALL, PADDLE = 255, 128


class Catch(gymnasium.Env[NDArray[np.uint8], Any]):
    """A ball falls from a random column, and a paddle at the bottom is to be under it when it lands.

    The game of Mnih et al. 2014 ("Recurrent Models of Visual Attention", section 4.2), on a picture of ``[84, 84, 1]``
    uint8. The field has ``size`` columns and as many rows, each a block of ``84 / size`` pixels; ball and paddle fill
    one block each. In a step the paddle goes left (0), stays (1) or goes right (2), and the ball falls by one row. It
    lands after ``size - 1`` steps, which is as far as the paddle ever has to go: +1 where it is caught, -1 where not,
    and 0 in all other steps. The next ball starts in the same step, with the paddle where it is; an episode terminates
    with the last of ``balls``, of which its last observation shows the landing.

    The best return is ``balls``. Whoever does not look at the ball, such as a random policy, catches one in ``size``:
    a mean return of ``balls * (2 / size - 1)``. As it stands that is 1 and -5/7 in episodes of 6 steps.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 8}

    def __init__(self, size: int = 7, balls: int = 1, render_mode: str | None = None) -> None:
        if size < 2 or SIDE % size:
            raise ValueError(f"Catch: size must be 2 or more and divide {SIDE}, got {size}")
        if balls < 1:
            raise ValueError(f"Catch: balls must be 1 or more, got {balls}")
        self.observation_space = Box(0, 255, (SIDE, SIDE, 1), np.uint8)
        self.action_space = Discrete(3)
        self.render_mode = render_mode
        self._size, self._balls, self._block = size, balls, SIDE // size
        self._picture = np.zeros((SIDE, SIDE, 1), np.uint8)
        self._paddle = self._column = self._row = 0
        self._left = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        super().reset(seed=seed)
        self._picture[:] = 0
        self._paddle, self._left = self._size // 2, self._balls
        self._drop()
        return self._draw(), {}

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        if not 0 <= action <= 2:
            raise ValueError(f"Catch: action {action} is not 0, 1 or 2")
        if not self._left:
            raise ValueError("Catch: the episode is over, or none has begun; call reset()")
        self._fill(self._row, self._column, 0)
        self._fill(self._size - 1, self._paddle, 0)
        self._paddle = min(max(self._paddle + int(action) - 1, 0), self._size - 1)
        self._row += 1
        reward = 0.0
        if self._row == self._size - 1:
            reward = 1.0 if self._column == self._paddle else -1.0
            self._left -= 1
            if self._left:
                self._drop()
        return self._draw(), reward, not self._left, False, {}

    def render(self) -> NDArray[np.uint8] | None:
        """The picture in three colours, ``[84, 84, 3]`` uint8, with the render mode ``rgb_array``."""
        return np.repeat(self._picture, 3, axis=2) if self.render_mode == "rgb_array" else None

    def _drop(self) -> None:
        self._row, self._column = 0, int(self.np_random.integers(self._size))

    def _draw(self) -> NDArray[np.uint8]:
        self._fill(self._size - 1, self._paddle, PADDLE)
        self._fill(self._row, self._column, BALL)
        return self._picture.copy()

    def _fill(self, row: int, column: int, brightness: int) -> None:
        y, x, block = row * self._block, column * self._block, self._block
        self._picture[y : y + block, x : x + block] = brightness
