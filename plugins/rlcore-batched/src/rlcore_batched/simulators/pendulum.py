"""Pendulum: a pendulum that is swung up and held by a motor too weak to lift it at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from rlcore.columns import Columns
from rlcore_batched.drawing import BLACK, RED, Canvas
from rlcore_batched.noise import Bits, uniform
from rlcore_batched.simulator import Outcome, Simulator, SimulatorSettings, State

FASTEST, STRONGEST = 8.0, 2.0
SECONDS = 0.05
TURN = 2.0 * math.pi


class PendulumSettings(SimulatorSettings):
    """``g``: the acceleration of gravity."""

    g: float = 10.0


class Pendulum(Simulator[PendulumSettings]):
    """The dynamics of Gymnasium's ``Pendulum-v1``; variables ``angle`` (0 is upright) and ``turning``, float64."""

    Settings = PendulumSettings
    time_limit = 200
    frames_per_second = 30.0

    def __init__(self, settings: PendulumSettings) -> None:
        super().__init__(settings)
        high = np.array([1.0, 1.0, FASTEST], np.float32)
        self.observation_space = Box(-high, high, dtype=np.float32)
        self.action_space = Box(-STRONGEST, STRONGEST, (1,), np.float32)

    def start(self, seeds: Bits) -> State:
        return {"angle": uniform(seeds, 0, -math.pi, math.pi), "turning": uniform(seeds, 1, -1.0, 1.0)}

    def step(self, state: State, actions: NDArray[Any]) -> Outcome:
        angle, turning = state["angle"], state["turning"]
        torque = np.minimum(np.maximum(actions[:, 0], np.float32(-STRONGEST)), np.float32(STRONGEST))
        upright = _from_upright(angle)
        # What depends on the torque alone is float32, as it is there.
        costs = np.square(upright) + 0.1 * np.square(turning) + np.float32(0.001) * np.square(torque)
        turning = turning + (1.5 * self.settings.g * np.sin(angle) + np.float32(3.0) * torque) * SECONDS
        turning = np.minimum(np.maximum(turning, -FASTEST), FASTEST)
        after = {"angle": angle + SECONDS * turning, "turning": turning}
        return Outcome(after, np.negative(costs), np.zeros(len(angle), np.bool_))

    def observe(self, state: State) -> Columns:
        # Of a small angle float32 loses nothing that could be seen, and takes a fifth of the time.
        angle = _from_upright(state["angle"]).astype(np.float32)
        obs = np.empty((len(angle), 3), np.float32)
        np.cos(angle, out=obs[:, 0])
        np.sin(angle, out=obs[:, 1])
        obs[:, 2] = state["turning"]
        return obs

    def terminal(self, state: State) -> NDArray[np.bool_]:
        return np.zeros(len(state["angle"]), np.bool_)

    def from_obs(self, obs: Columns) -> State | None:
        cosine, sine, turning = np.asarray(obs, np.float64).T.copy()
        return {"angle": np.arctan2(sine, cosine), "turning": turning}

    def draw(self, state: State) -> NDArray[np.uint8]:
        canvas = Canvas(400, 400, (-1.4, 1.4), (-1.4, 1.4))
        angle = float(state["angle"][0])
        canvas.line(0.0, 0.0, -math.sin(angle), math.cos(angle), 0.2, RED)
        canvas.disc(0.0, 0.0, 0.05, BLACK)
        return canvas.picture


def _from_upright(angle: NDArray[Any]) -> NDArray[Any]:
    """The same angle between ``-pi`` and ``pi``."""
    return np.asarray(angle - TURN * np.rint(angle * (1.0 / TURN)))
