"""CartPole: a pole on a cart that is pushed left or right (Barto, Sutton and Anderson 1983)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from rlcore.columns import Columns
from rlcore_batched.drawing import BLACK, GREY, RED, Canvas
from rlcore_batched.noise import Bits, uniform
from rlcore_batched.simulator import Outcome, Simulator, SimulatorSettings, State

GRAVITY, POLE_MASS, TOTAL_MASS = 9.8, 0.1, 1.1
HALF_LENGTH = 0.5
FORCE = 10.0
SECONDS = 0.02
LARGEST_X, LARGEST_ANGLE = 2.4, 12 * 2 * math.pi / 360


class CartPoleSettings(SimulatorSettings):
    """``sutton_barto_reward``: 0 a step and -1 for the fall, instead of 1 a step."""

    sutton_barto_reward: bool = False


class CartPole(Simulator[CartPoleSettings]):
    """The dynamics of Gymnasium's ``CartPole-v1``; variables ``x``, ``speed``, ``angle``, ``turning``, float64."""

    Settings = CartPoleSettings
    time_limit = 500
    frames_per_second = 50.0

    def __init__(self, settings: CartPoleSettings) -> None:
        super().__init__(settings)
        high = np.array([2 * LARGEST_X, np.inf, 2 * LARGEST_ANGLE, np.inf], np.float32)
        self.observation_space = Box(-high, high, dtype=np.float32)
        self.action_space = Discrete(2)

    def start(self, seeds: Bits) -> State:
        names = ("x", "speed", "angle", "turning")
        return {name: uniform(seeds, number, -0.05, 0.05) for number, name in enumerate(names)}

    def step(self, state: State, actions: NDArray[Any]) -> Outcome:
        x, speed, angle, turning = state["x"], state["speed"], state["angle"], state["turning"]
        force = actions * (2 * FORCE) - FORCE
        cosine, sine = np.cos(angle), np.sin(angle)
        pushed = (force + POLE_MASS * HALF_LENGTH * np.square(turning) * sine) / TOTAL_MASS
        lever = HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * np.square(cosine) / TOTAL_MASS)
        turned = (GRAVITY * sine - cosine * pushed) / lever
        moved = pushed - POLE_MASS * HALF_LENGTH * turned * cosine / TOTAL_MASS
        after = {
            "x": x + SECONDS * speed,
            "speed": speed + SECONDS * moved,
            "angle": angle + SECONDS * turning,
            "turning": turning + SECONDS * turned,
        }
        fallen = self.terminal(after)
        rewards = -fallen.astype(np.float32) if self.settings.sutton_barto_reward else np.ones(len(x), np.float32)
        return Outcome(after, rewards, fallen)

    def observe(self, state: State) -> Columns:
        obs = np.empty((len(state["x"]), 4), np.float32)
        obs[:, 0], obs[:, 1], obs[:, 2], obs[:, 3] = state["x"], state["speed"], state["angle"], state["turning"]
        return obs

    def terminal(self, state: State) -> NDArray[np.bool_]:
        return np.asarray((np.abs(state["x"]) > LARGEST_X) | (np.abs(state["angle"]) > LARGEST_ANGLE))

    def from_obs(self, obs: Columns) -> State | None:
        x, speed, angle, turning = np.asarray(obs, np.float64).T.copy()
        return {"x": x, "speed": speed, "angle": angle, "turning": turning}

    def draw(self, state: State) -> NDArray[np.uint8]:
        canvas = Canvas(600, 400, (-LARGEST_X, LARGEST_X), (-0.8, 2.4))
        x, angle = float(state["x"][0]), float(state["angle"][0])
        canvas.line(-LARGEST_X, 0.0, LARGEST_X, 0.0, 0.01, GREY)
        canvas.box(x - 0.2, x + 0.2, -0.12, 0.12, BLACK)
        canvas.line(x, 0.1, x + 2 * HALF_LENGTH * math.sin(angle), 0.1 + 2 * HALF_LENGTH * math.cos(angle), 0.08, RED)
        return canvas.picture
