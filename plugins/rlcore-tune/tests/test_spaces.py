"""What settings are drawn from, and what is near a value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcore.errors import ConfigError
from rlcore_tune.spaces import Choice, Grid, Integers, LogUniform, Uniform, explore, parse_distribution


def many(distribution: Any, n: int = 2000) -> list[Any]:
    rng = np.random.default_rng(0)
    return [distribution.draw(rng) for _ in range(n)]


def test_each_value_of_a_choice_is_as_likely() -> None:
    drawn = many(Choice(choice=["a", [1, 2], None]))
    assert [drawn.count(value) for value in ("a", [1, 2], None)] == pytest.approx([667, 667, 667], rel=0.1)


def test_uniform_numbers_have_the_mean_of_their_bounds() -> None:
    drawn = many(Uniform(uniform=(-1.0, 3.0)))
    assert min(drawn) >= -1.0 and max(drawn) < 3.0
    assert np.mean(drawn) == pytest.approx(1.0, abs=0.06)


def test_log_uniform_numbers_are_as_likely_in_each_decade() -> None:
    drawn = many(LogUniform(log_uniform=(1e-5, 1e-2)))
    decades = [sum(low <= value < 10 * low for value in drawn) for low in (1e-5, 1e-4, 1e-3)]
    assert decades == pytest.approx([667, 667, 667], rel=0.1)


def test_integers_have_both_bounds() -> None:
    drawn = many(Integers(integers=(2, 4)))
    assert {type(value) for value in drawn} == {int}
    assert [drawn.count(value) for value in (2, 3, 4)] == pytest.approx([667, 667, 667], rel=0.1)


@pytest.mark.parametrize(
    ("distribution", "value", "factor", "expected"),
    [
        (Uniform(uniform=(0.0, 1.0)), 0.5, 1.25, 0.625),
        (Uniform(uniform=(0.0, 1.0)), 0.9, 1.25, 1.0),
        (LogUniform(log_uniform=(1e-4, 1e-2)), 1e-3, 0.8, 8e-4),
        (LogUniform(log_uniform=(1e-4, 1e-2)), 1.1e-4, 0.8, 1e-4),
        (Integers(integers=(1, 64)), 40, 1.25, 50),
        (Integers(integers=(1, 64)), 60, 1.25, 64),
        # Times 0.8 it would be the same.
        (Integers(integers=(1, 64)), 2, 0.8, 1),
        (Integers(integers=(1, 64)), 1, 0.8, 1),
        (Choice(choice=[32, 64, 128]), 64, 1.25, 128),
        (Choice(choice=[32, 64, 128]), 64, 0.8, 32),
        (Choice(choice=[32, 64, 128]), 128, 1.25, 128),
        (Grid(grid=["x", "y"]), "y", 0.8, "x"),
    ],
)
def test_what_is_near_a_value(distribution: Any, value: Any, factor: float, expected: Any) -> None:
    assert distribution.perturb(value, factor, np.random.default_rng(0)) == pytest.approx(expected)


def test_a_value_that_is_no_choice_is_drawn_anew() -> None:
    assert Choice(choice=["a"]).perturb("b", 0.8, np.random.default_rng(0)) == "a"


@given(
    low=st.floats(1e-6, 1.0),
    width=st.floats(1e-3, 10.0),
    factor=st.sampled_from([0.8, 1.25]),
    seed=st.integers(0, 2**16),
)
def test_nothing_leaves_its_bounds(low: float, width: float, factor: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for distribution in (Uniform(uniform=(low, low + width)), LogUniform(log_uniform=(low, low + width))):
        value = distribution.draw(rng)
        for _ in range(20):
            assert low <= value <= low + width
            value = distribution.perturb(value, factor, rng)


def test_settings_are_drawn_anew_or_perturbed_as_often_as_said() -> None:
    space = {"lr": LogUniform(log_uniform=(1e-8, 1.0)), "clip": Uniform(uniform=(0.0, 1.0))}
    before = {"lr": 1e-3, "clip": 0.5, "other": "kept"}
    rng = np.random.default_rng(0)
    changed = [explore(before, space, 0.25, (0.5, 2.0), rng) for _ in range(2000)]
    assert {each["other"] for each in changed} == {"kept"}
    for key, value in (("lr", 1e-3), ("clip", 0.5)):
        halved = sum(math.isclose(each[key], value / 2) for each in changed)
        doubled = sum(math.isclose(each[key], value * 2) for each in changed)
        # Both factors as likely, and a quarter drawn from anywhere.
        assert (halved, doubled) == (pytest.approx(750, rel=0.1), pytest.approx(750, rel=0.1))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (3, "x: should be one of choice, uniform, log_uniform, integers, grid, such as {uniform: [0, 1]}, not 3"),
        ({"loguniform": [1, 2]}, "x.loguniform: nothing to draw from is called so, did you mean 'log_uniform'?"),
        ({"uniform": [2, 1]}, "x.uniform: the first bound should be below the second, not 2 and 1"),
        ({"log_uniform": [0, 1]}, "x.log_uniform.0: should be greater than 0, not 0"),
        ({"integers": [1.5, 3]}, "x.integers.0: should be a valid integer, not 1.5"),
        ({"uniform": [1]}, "x.uniform.1: missing"),
        ({"choice": []}, "x.choice: list should have at least 1 item after validation, not 0, not []"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(settings: Any, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_distribution(settings, "x")
    assert str(error.value) == said
