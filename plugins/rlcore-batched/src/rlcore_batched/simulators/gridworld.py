"""GridWorld: an agent on a grid is to find its goal."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from gymnasium.spaces import Discrete, MultiDiscrete
from numpy.typing import NDArray
from pydantic import Field

from rlcore.columns import Columns
from rlcore_batched.drawing import BLUE, GREEN, WHITE, cells
from rlcore_batched.noise import Bits, below, mixed, uniform
from rlcore_batched.simulator import Outcome, Simulator, SimulatorSettings, State

#: By action: up, right, down, left.
ROWS, COLUMNS = np.array([-1, 0, 1, 0]), np.array([0, 1, 0, -1])
#: What a step costs that does not reach the goal, and what the goal is worth.
COST, PRIZE = -0.01, 1.0


class GridWorldSettings(SimulatorSettings):
    """``size``: cells of a side. ``slip``: how likely a random move is made instead of the chosen one."""

    size: Annotated[int, Field(ge=2, le=1000)] = 5
    slip: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0


class GridWorld(Simulator[GridWorldSettings]):
    """Agent and goal start in different random cells; the edge of the grid stops the agent.

    A step costs 0.01; that onto the goal earns 1 and ends the episode. Observations are the row and the column of the
    agent, then those of the goal. Variables ``place`` and ``goal``, numbers of cells (int64), and ``dice``.
    """

    Settings = GridWorldSettings
    time_limit = 100
    frames_per_second = 8.0

    def __init__(self, settings: GridWorldSettings) -> None:
        super().__init__(settings)
        self.observation_space = MultiDiscrete([settings.size] * 4)
        self.action_space = Discrete(4)

    def start(self, seeds: Bits) -> State:
        count = self.settings.size**2
        place = below(seeds, 0, count)
        goal = (place + 1 + below(seeds, 1, count - 1)) % count
        return {"place": place, "goal": goal, "dice": mixed(seeds, 2)}

    def step(self, state: State, actions: NDArray[Any]) -> Outcome:
        size, dice = self.settings.size, state["dice"]
        if self.settings.slip:
            slipped = uniform(dice, 0) < self.settings.slip
            actions = np.where(slipped, below(dice, 1, 4), actions)
            dice = mixed(dice, 2)
        row, column = np.divmod(state["place"], size)
        row = np.clip(row + ROWS[actions], 0, size - 1)
        column = np.clip(column + COLUMNS[actions], 0, size - 1)
        after = {"place": row * size + column, "goal": state["goal"], "dice": dice}
        arrived = self.terminal(after)
        return Outcome(after, np.where(arrived, PRIZE, COST), arrived)

    def observe(self, state: State) -> Columns:
        obs = np.empty((len(state["place"]), 4), np.int64)
        for column, name in ((0, "place"), (2, "goal")):
            obs[:, column], obs[:, column + 1] = np.divmod(state[name], self.settings.size)
        return obs

    def terminal(self, state: State) -> NDArray[np.bool_]:
        return np.asarray(state["place"] == state["goal"])

    def from_obs(self, obs: Columns) -> State | None:
        cells_ = np.asarray(obs, np.int64)
        size = self.settings.size
        place, goal = cells_[:, 0] * size + cells_[:, 1], cells_[:, 2] * size + cells_[:, 3]
        return {"place": place, "goal": goal, "dice": np.zeros(len(place), np.uint64)}

    def draw(self, state: State) -> NDArray[np.uint8]:
        colours = np.full((self.settings.size**2, 3), WHITE, np.uint8)
        colours[state["goal"][0]] = GREEN
        colours[state["place"][0]] = BLUE
        size = self.settings.size
        return cells(colours.reshape(size, size, 3), max(4, 320 // size))
