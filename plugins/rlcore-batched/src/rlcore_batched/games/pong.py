"""Pong for two players, in numbers instead of pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from rlcore.columns import Columns
from rlcore_batched.drawing import BLACK, BLUE, RED, WHITE, Canvas
from rlcore_batched.noise import Bits, below, mixed, uniform
from rlcore_batched.seats import GameSettings
from rlcore_batched.simulator import Outcome, Positive, Simulator, State

#: The court reaches from -1 to 1 both ways; paddles stand at its left and right end.
HALF_PADDLE, PADDLE_STEP = 0.2, 0.08
#: How fast the ball goes sideways at the serve, by how much each hit speeds it up, and the fastest it gets.
SERVE, FASTER, FASTEST = 0.05, 1.05, 0.1
#: How fast the ball rises or falls at most: after a hit with the edge of a paddle.
STEEPEST = 0.06


class PongSettings(GameSettings):
    """``points``: how many points win a game."""

    points: Positive = 5


class Pong(Simulator[PongSettings]):
    """Player 0 has the left paddle, player 1 the right one; both act in each step: stay (0), up (1) or down (2).

    A ball that a player misses is a point for the other, +1 and -1, and is served anew from the middle, towards whoever
    won the point, at a random angle. Where on the paddle it is hit says how it leaves. The game terminates when a
    player has ``points``.

    Each player sees itself on the left: float32 ``[8]`` in ``[-1, 1]`` with the heights of its own and of the other
    paddle, the place of the ball, across and up, its speed likewise, and the own and the other's points so far. Actions
    and rewards are ``[n, 2]``. Variables ``x y speed_x speed_y`` and ``paddles [n, 2]`` float64, ``points [n, 2]``
    int64, ``dice``.
    """

    Settings = PongSettings
    time_limit = 2000
    frames_per_second = 30.0

    def __init__(self, settings: PongSettings) -> None:
        super().__init__(settings)
        self.observation_space = Box(-1.0, 1.0, (8,), np.float32)
        self.action_space = Discrete(3)

    def start(self, seeds: Bits) -> State:
        n = len(seeds)
        return {
            "x": np.zeros(n),
            "y": uniform(seeds, 0, -0.5, 0.5),
            "speed_x": np.where(below(seeds, 1, 2) == 0, -SERVE, SERVE),
            "speed_y": uniform(seeds, 2, -STEEPEST, STEEPEST),
            "paddles": np.zeros((n, 2)),
            "points": np.zeros((n, 2), np.int64),
            "dice": mixed(seeds, 3),
        }

    def step(self, state: State, actions: NDArray[Any]) -> Outcome:
        moves = np.array([0.0, PADDLE_STEP, -PADDLE_STEP])[actions]
        paddles = np.clip(state["paddles"] + moves, HALF_PADDLE - 1.0, 1.0 - HALF_PADDLE)
        x, y = state["x"] + state["speed_x"], state["y"] + state["speed_y"]
        beyond = np.abs(y) > 1.0
        y = np.where(beyond, np.copysign(2.0, y) - y, y)
        speed_y = np.where(beyond, -state["speed_y"], state["speed_y"])
        after = {
            "x": x,
            "y": y,
            "speed_x": state["speed_x"].copy(),
            "speed_y": speed_y,
            "paddles": paddles,
            "points": state["points"],
            "dice": state["dice"],
        }
        rewards = np.zeros((len(x), 2), np.float32)
        arrived = np.flatnonzero(np.abs(x) >= 1.0)
        if len(arrived):
            after["points"], after["dice"] = state["points"].copy(), state["dice"].copy()
            _arrive(after, arrived, rewards)
        return Outcome(after, rewards, self.terminal(after))

    def observe(self, state: State) -> Columns:
        """As player 0 sees it."""
        return self.view(state, np.zeros(len(state["x"]), np.int64))

    def view(self, state: State, players: NDArray[np.int64]) -> NDArray[np.float32]:
        """What ``players [n]`` see."""
        every, mirror = np.arange(len(players)), 1.0 - 2.0 * players
        obs = np.empty((len(players), 8), np.float32)
        obs[:, 0], obs[:, 1] = state["paddles"][every, players], state["paddles"][every, 1 - players]
        obs[:, 2], obs[:, 3] = np.clip(mirror * state["x"], -1.0, 1.0), state["y"]
        obs[:, 4], obs[:, 5] = mirror * state["speed_x"] / FASTEST, state["speed_y"] / STEEPEST
        points = state["points"] / self.settings.points
        obs[:, 6], obs[:, 7] = points[every, players], points[every, 1 - players]
        return obs

    def terminal(self, state: State) -> NDArray[np.bool_]:
        return np.asarray((state["points"] >= self.settings.points).any(axis=1))

    def draw(self, state: State) -> NDArray[np.uint8]:
        canvas = Canvas(400, 400, (-1.1, 1.1), (-1.1, 1.1), BLACK)
        for x, height, colour in ((-1.0, state["paddles"][0, 0], RED), (1.0, state["paddles"][0, 1], BLUE)):
            canvas.box(x - 0.03, x + 0.03, height - HALF_PADDLE, height + HALF_PADDLE, colour)
        canvas.disc(float(state["x"][0]), float(state["y"][0]), 0.04, WHITE)
        return canvas.picture


def _arrive(state: State, index: NDArray[np.int64], rewards: NDArray[np.float32]) -> None:
    """The balls of the copies ``index`` have come to one end of the court: they are hit, or missed."""
    player = (state["x"][index] > 0.0).astype(np.int64)
    place = (state["y"][index] - state["paddles"][index, player]) / HALF_PADDLE
    hit = np.abs(place) <= 1.0
    back, side = index[hit], np.sign(state["x"][index[hit]])
    state["x"][back] = side * 2.0 - state["x"][back]
    state["speed_x"][back] = -side * np.minimum(np.abs(state["speed_x"][back]) * FASTER, FASTEST)
    state["speed_y"][back] = place[hit] * STEEPEST
    missed, loser = index[~hit], player[~hit]
    if not len(missed):
        return
    winner, dice = 1 - loser, state["dice"][missed]
    rewards[missed, winner], rewards[missed, loser] = 1.0, -1.0
    state["points"][missed, winner] += 1
    state["x"][missed], state["y"][missed] = 0.0, uniform(dice, 0, -0.5, 0.5)
    state["speed_x"][missed] = np.where(winner == 1, SERVE, -SERVE)
    state["speed_y"][missed] = uniform(dice, 1, -STEEPEST, STEEPEST)
    state["dice"][missed] = mixed(dice, 2)
