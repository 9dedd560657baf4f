"""Observations that leave their space are one error that says where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from rlcore.errors import EnvError
from rlcore.sampling.observation_check import ObservationCheck

SLOTS, STEPS = np.array([4, 5, 6]), np.array([7, 8, 9])

GOOD_AND_BAD = [
    (Box(-1, 1, (2,)), np.zeros((3, 2), np.float32), [0.0, 1.5], "outside its space"),
    (Box(-np.inf, np.inf, (2,)), np.zeros((3, 2), np.float32), [0.0, np.inf], "not finite"),
    (Box(-np.inf, np.inf, (2,), np.float64), np.zeros((3, 2)), [np.nan, 0.0], "not finite"),
    (Box(0, 5, (1,), np.uint8), np.full((3, 1), 5, np.uint8), [6], "outside its space"),
    (Discrete(5, start=3), np.array([3, 5, 7]), 1, "outside its space"),
    (Discrete(5, start=3), np.array([3, 5, 7]), 8, "outside its space"),
    (MultiDiscrete([2, 3]), np.array([[1, 2], [0, 0], [1, 1]]), [0, 3], "outside its space"),
    (MultiBinary(2), np.array([[1, 0]] * 3, np.int8), [2, 0], "outside its space"),
]


@pytest.mark.parametrize(("space", "good", "bad", "problem"), GOOD_AND_BAD, ids=str)
def test_B103_the_first_that_leaves_the_space_is_named(space: Any, good: Any, bad: Any, problem: str) -> None:
    check = ObservationCheck(space, "Maze")
    check(good, SLOTS, STEPS)
    wrong = good.copy()
    wrong[1] = bad
    with pytest.raises(EnvError, match=f"environment 'Maze', slot 5, step 8 of its episode: 'obs' is {problem}"):
        check(wrong, SLOTS, STEPS)


def test_leaves_are_named() -> None:
    check = ObservationCheck(Dict(eye=Dict(left=Box(0, 1, (1,))), n=Discrete(2)), "Maze")
    obs = {"eye.left": np.zeros((3, 1), np.float32), "n": np.array([0, 1, 1])}
    check(obs, SLOTS, STEPS)
    obs["eye.left"][2] = 2
    with pytest.raises(EnvError, match=r"slot 6, step 9 .* 'obs.eye.left' is outside its space: \[2.\]"):
        check(obs, SLOTS, STEPS)


@pytest.mark.parametrize(
    ("value", "message"),
    [(7.0, r"is outside its space: 7.0 at \[1, 2, 0\], and 1 more of its 36 numbers"), (np.nan, r"not finite: nan at")],
)
def test_of_a_wrong_image_one_number_is_shown(value: float, message: str) -> None:
    check = ObservationCheck(Box(0, 1, (4, 3, 3)), "Maze")
    obs = np.zeros((3, 4, 3, 3), np.float32)
    obs[1, 1, 2, 0] = obs[1, 3, 0, 1] = value
    with pytest.raises(EnvError, match=message) as caught:
        check(obs, SLOTS, STEPS)
    assert "\n" not in str(caught.value)


def test_rounding_at_a_bound_passes() -> None:
    check = ObservationCheck(Box(-8, 8, (1,)), "Pendulum")
    check(np.full((3, 1), np.nextafter(np.float32(8), np.float32(9))), SLOTS, STEPS)


def test_of_images_there_is_nothing_to_check_but_of_a_part_of_their_numbers_there_is() -> None:
    image, half = Box(0, 255, (2,), np.uint8), Box(0, np.array([255, 100]), (2,), np.uint8)
    rows = np.full((3, 2), 255, np.uint8)
    ObservationCheck(image, "Maze")(rows, SLOTS, STEPS)
    with pytest.raises(EnvError, match=r"slot 4, step 7 of its episode: 'obs' is outside its space: \[255 255\]"):
        ObservationCheck(half, "Maze")(rows, SLOTS, STEPS)


def test_no_rows_are_right() -> None:
    ObservationCheck(Box(-1, 1, (2,)), "Maze")(np.zeros((0, 2), np.float32), SLOTS[:0], STEPS[:0])


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (300,)], ids=str)
@pytest.mark.parametrize("row", [0, 500, 1000, 1006])
@pytest.mark.parametrize("value", [1.5, np.nan])
def test_of_many_rows_each_is_looked_at(shape: tuple[int, ...], row: int, value: float) -> None:
    check = ObservationCheck(Box(-1, 1, shape), "Maze")
    rows = 1007
    obs = np.random.default_rng(0).uniform(-1, 1, (rows, *shape)).astype(np.float32)
    check(obs, np.arange(rows), np.arange(rows))
    obs[row, ...].reshape(-1)[-1:] = value
    with pytest.raises(EnvError, match=f"slot {row}, step {row} of its episode"):
        check(obs, np.arange(rows), np.arange(rows))
