"""MountainCar: a car too weak for the hill has to swing out of the valley (Moore 1990)."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from rlcore.columns import Columns
from rlcore_batched.drawing import BLACK, GREY, RED, Canvas
from rlcore_batched.noise import Bits, uniform
from rlcore_batched.simulator import Outcome, Simulator, SimulatorSettings, State

LEFT, RIGHT, GOAL = -1.2, 0.6, 0.5
FASTEST = 0.07
FORCE, GRAVITY = 0.001, 0.0025


class MountainCarSettings(SimulatorSettings):
    """``goal_velocity``: how fast the car has to be at the goal."""

    goal_velocity: float = 0.0


class MountainCar(Simulator[MountainCarSettings]):
    """The dynamics of Gymnasium's ``MountainCar-v0``; variables ``position`` and ``velocity``, float64."""

    Settings = MountainCarSettings
    time_limit = 200
    frames_per_second = 30.0

    def __init__(self, settings: MountainCarSettings) -> None:
        super().__init__(settings)
        low, high = np.array([LEFT, -FASTEST], np.float32), np.array([RIGHT, FASTEST], np.float32)
        self.observation_space = Box(low, high, dtype=np.float32)
        self.action_space = Discrete(3)

    def start(self, seeds: Bits) -> State:
        return {"position": uniform(seeds, 0, -0.6, -0.4), "velocity": np.zeros(len(seeds))}

    def step(self, state: State, actions: NDArray[Any]) -> Outcome:
        velocity = state["velocity"] + (actions - 1) * FORCE + np.cos(3 * state["position"]) * -GRAVITY
        velocity = np.clip(velocity, -FASTEST, FASTEST)
        position = np.clip(state["position"] + velocity, LEFT, RIGHT)
        velocity[(position == LEFT) & (velocity < 0)] = 0.0
        after = {"position": position, "velocity": velocity}
        return Outcome(after, np.full(len(position), -1.0, np.float32), self.terminal(after))

    def observe(self, state: State) -> Columns:
        obs = np.empty((len(state["position"]), 2), np.float32)
        obs[:, 0], obs[:, 1] = state["position"], state["velocity"]
        return obs

    def terminal(self, state: State) -> NDArray[np.bool_]:
        arrived = (state["position"] >= GOAL) & (state["velocity"] >= self.settings.goal_velocity)
        return np.asarray(arrived)

    def from_obs(self, obs: Columns) -> State | None:
        position, velocity = np.asarray(obs, np.float64).T.copy()
        return {"position": position, "velocity": velocity}

    def draw(self, state: State) -> NDArray[np.uint8]:
        canvas = Canvas(600, 400, (LEFT, RIGHT), (0.0, 1.2))
        x = float(state["position"][0])
        canvas.curve(_height(canvas.columns), BLACK)
        canvas.line(GOAL, float(_height(GOAL)), GOAL, float(_height(GOAL)) + 0.12, 0.015, RED)
        canvas.disc(x, float(_height(x)) + 0.03, 0.03, GREY)
        return canvas.picture


def _height(x: Any) -> NDArray[np.float64]:
    return np.asarray(np.sin(3 * x) * 0.45 + 0.55, np.float64)
