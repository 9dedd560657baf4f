"""Acrobot: two links, of which only the joint between them has a motor, are to swing above a line (Sutton 1996)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from rlcore.columns import Columns
from rlcore_batched.drawing import BLUE, GREY, YELLOW, Canvas
from rlcore_batched.noise import Bits, uniform
from rlcore_batched.simulator import Outcome, Simulator, SimulatorSettings, State

#: Links are 1 long and weigh 1; so do their moments of inertia, and their centres lie in their middle.
CENTRE, GRAVITY = 0.5, 9.8
FASTEST_1, FASTEST_2 = 4.0 * math.pi, 9.0 * math.pi
SECONDS = 0.2
TURN = 2.0 * math.pi

Variables = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]


class Acrobot(Simulator[SimulatorSettings]):
    """The dynamics of Gymnasium's ``Acrobot-v1``; variables ``angle_1``, ``angle_2``, ``turning_1``, ``turning_2``.

    The equations are those of Sutton and Barto's book, integrated by one Runge-Kutta step of fourth order.
    """

    time_limit = 500
    frames_per_second = 15.0

    def __init__(self, settings: SimulatorSettings) -> None:
        super().__init__(settings)
        high = np.array([1.0, 1.0, 1.0, 1.0, FASTEST_1, FASTEST_2], np.float32)
        self.observation_space = Box(-high, high, dtype=np.float32)
        self.action_space = Discrete(3)

    def start(self, seeds: Bits) -> State:
        names = ("angle_1", "angle_2", "turning_1", "turning_2")
        # Rounded as Gymnasium rounds its first states.
        return {
            name: uniform(seeds, number, -0.1, 0.1).astype(np.float32).astype(np.float64)
            for number, name in enumerate(names)
        }

    def step(self, state: State, actions: NDArray[Any]) -> Outcome:
        torque = actions - 1.0
        begin = state["angle_1"], state["angle_2"], state["turning_1"], state["turning_2"]
        angle_1, angle_2, turning_1, turning_2 = _runge_kutta(begin, torque)
        after = {
            "angle_1": _wrapped(angle_1),
            "angle_2": _wrapped(angle_2),
            "turning_1": np.clip(turning_1, -FASTEST_1, FASTEST_1),
            "turning_2": np.clip(turning_2, -FASTEST_2, FASTEST_2),
        }
        above = self.terminal(after)
        return Outcome(after, above.astype(np.float32) - np.float32(1.0), above)

    def observe(self, state: State) -> Columns:
        obs = np.empty((len(state["angle_1"]), 6), np.float32)
        for column, name in ((0, "angle_1"), (2, "angle_2")):
            obs[:, column], obs[:, column + 1] = np.cos(state[name]), np.sin(state[name])
        obs[:, 4], obs[:, 5] = state["turning_1"], state["turning_2"]
        return obs

    def terminal(self, state: State) -> NDArray[np.bool_]:
        return np.asarray(-np.cos(state["angle_1"]) - np.cos(state["angle_1"] + state["angle_2"]) > 1.0)

    def from_obs(self, obs: Columns) -> State | None:
        columns = np.asarray(obs, np.float64).T.copy()
        return {
            "angle_1": np.arctan2(columns[1], columns[0]),
            "angle_2": np.arctan2(columns[3], columns[2]),
            "turning_1": columns[4],
            "turning_2": columns[5],
        }

    def draw(self, state: State) -> NDArray[np.uint8]:
        canvas = Canvas(400, 400, (-2.2, 2.2), (-2.2, 2.2))
        first, both = float(state["angle_1"][0]), float(state["angle_1"][0] + state["angle_2"][0])
        x, y = math.sin(first), -math.cos(first)
        canvas.line(-2.2, 1.0, 2.2, 1.0, 0.02, GREY)
        canvas.line(0.0, 0.0, x, y, 0.2, BLUE)
        canvas.line(x, y, x + math.sin(both), y - math.cos(both), 0.2, BLUE)
        for joint in ((0.0, 0.0), (x, y)):
            canvas.disc(*joint, 0.1, YELLOW)
        return canvas.picture


def _wrapped(angle: NDArray[Any]) -> NDArray[Any]:
    """Into ``(-pi, pi]``."""
    return np.asarray(angle - TURN * np.ceil((angle - math.pi) / TURN))


def _runge_kutta(begin: Variables, torque: NDArray[Any]) -> Variables:
    def ahead(slopes: Variables, seconds: float) -> Variables:
        a, b, c, d = (value + seconds * slope for value, slope in zip(begin, slopes, strict=True))
        return a, b, c, d

    k1 = _slopes(begin, torque)
    k2 = _slopes(ahead(k1, SECONDS / 2.0), torque)
    k3 = _slopes(ahead(k2, SECONDS / 2.0), torque)
    k4 = _slopes(ahead(k3, SECONDS), torque)
    a, b, c, d = (
        value + SECONDS / 6.0 * (one + 2 * two + 2 * three + four)
        for value, one, two, three, four in zip(begin, k1, k2, k3, k4, strict=True)
    )
    return a, b, c, d


def _slopes(variables: Variables, torque: NDArray[Any]) -> Variables:
    """How the variables change in time."""
    angle_1, angle_2, turning_1, turning_2 = variables
    cosine, sine = np.cos(angle_2), np.sin(angle_2)
    d1 = CENTRE**2 + (1.0 + CENTRE**2 + 2.0 * CENTRE * cosine) + 1.0 + 1.0
    d2 = CENTRE**2 + CENTRE * cosine + 1.0
    phi2 = CENTRE * GRAVITY * np.cos(angle_1 + angle_2 - math.pi / 2.0)
    phi1 = (
        -CENTRE * np.square(turning_2) * sine
        - 2.0 * CENTRE * turning_2 * turning_1 * sine
        + (CENTRE + 1.0) * GRAVITY * np.cos(angle_1 - math.pi / 2.0)
        + phi2
    )
    driven = torque + d2 / d1 * phi1 - CENTRE * np.square(turning_1) * sine - phi2
    second = driven / (CENTRE**2 + 1.0 - np.square(d2) / d1)
    first = -(d2 * second + phi1) / d1
    return turning_1, turning_2, first, second
