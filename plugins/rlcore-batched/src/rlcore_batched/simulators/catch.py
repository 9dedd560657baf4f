"""Catch: a ball falls, and a paddle is to be under it; seen as a picture."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray
from pydantic import Field

from rlcore.columns import Columns
from rlcore_batched.drawing import BLACK, RED, WHITE, cells
from rlcore_batched.noise import Bits, below
from rlcore_batched.simulator import Outcome, Positive, Simulator, SimulatorSettings, State

#: How bright ball and paddle are, on black.
BALL, PADDLE = 255, 128


class CatchSettings(SimulatorSettings):
    """``rows`` and ``columns`` of the field; ``block``: pixels of a side of one cell of it in the picture."""

    rows: Annotated[int, Field(ge=2)] = 10
    columns: Annotated[int, Field(ge=2)] = 5
    block: Positive = 1


class Catch(Simulator[CatchSettings]):
    """The game of Mnih et al. 2014 ("Recurrent Models of Visual Attention", section 4.2).

    The ball starts in a random column of the first row and falls by a row a step; the paddle, in the last row, starts
    in the middle and goes left (0), stays (1) or goes right (2). In the step in which the ball reaches the last row the
    episode terminates, with reward 1 where it is caught and -1 where not; all other rewards are 0.

    Observations are uint8 ``[rows * block, columns * block, 1]``. Variables ``row``, ``column``, ``paddle``, int64.
    """

    Settings = CatchSettings
    frames_per_second = 8.0

    def __init__(self, settings: CatchSettings) -> None:
        super().__init__(settings)
        shape = (settings.rows * settings.block, settings.columns * settings.block, 1)
        self.observation_space = Box(0, 255, shape, np.uint8)
        self.action_space = Discrete(3)

    def start(self, seeds: Bits) -> State:
        n, columns = len(seeds), self.settings.columns
        return {
            "row": np.zeros(n, np.int64),
            "column": below(seeds, 0, columns),
            "paddle": np.full(n, columns // 2, np.int64),
        }

    def step(self, state: State, actions: NDArray[Any]) -> Outcome:
        paddle = np.clip(state["paddle"] + actions - 1, 0, self.settings.columns - 1)
        after = {"row": state["row"] + 1, "column": state["column"], "paddle": paddle}
        landed = self.terminal(after)
        caught = np.where(paddle == state["column"], np.float32(1.0), np.float32(-1.0))
        return Outcome(after, caught * landed, landed)

    def observe(self, state: State) -> Columns:
        rows, columns, block = self.settings.rows, self.settings.columns, self.settings.block
        n, every = len(state["row"]), np.arange(len(state["row"]))
        field = np.zeros((n, rows, columns), np.uint8)
        field[every, rows - 1, state["paddle"]] = PADDLE
        field[every, state["row"], state["column"]] = BALL
        if block > 1:
            field = field.repeat(block, axis=1).repeat(block, axis=2)
        return field[..., None]

    def terminal(self, state: State) -> NDArray[np.bool_]:
        return np.asarray(state["row"] >= self.settings.rows - 1)

    def from_obs(self, obs: Columns) -> State | None:
        """Where no paddle is seen, the ball hides it: it has been caught."""
        block = self.settings.block
        field = np.asarray(obs)[:, ::block, ::block, 0]
        ball = (field == BALL).reshape(len(field), -1).argmax(axis=1)
        row, column = np.divmod(ball, self.settings.columns)
        seen = field[:, -1] == PADDLE
        paddle = np.where(seen.any(axis=1), seen.argmax(axis=1), column)
        return {"row": row, "column": column, "paddle": paddle}

    def draw(self, state: State) -> NDArray[np.uint8]:
        colours = np.full((self.settings.rows, self.settings.columns, 3), WHITE, np.uint8)
        colours[-1, state["paddle"][0]] = BLACK
        colours[state["row"][0], state["column"][0]] = RED
        return cells(colours, 32)
