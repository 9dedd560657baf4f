from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from rlcore.schedule import NonNegativeSchedule, PositiveSchedule, Schedule, value_at


class Config(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    rate: Schedule


def test_B073_a_schedule_depends_on_environment_steps_only() -> None:
    assert value_at([[0, 1.0], [10_000, 0.05]], 5_000) == 0.525


@pytest.mark.parametrize(
    ("steps", "expected"), [(0, 1.0), (100, 1.0), (150, 0.75), (200, 0.5), (300, 0.6), (10**9, 0.6)]
)
def test_piecewise_linear_and_constant_outside(steps: int, expected: float) -> None:
    schedule = Config.model_validate({"rate": [[100, 1.0], [200, 0.5], [300, 0.6]]}).rate
    assert value_at(schedule, steps) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("given", [3.0e-4, "3e-4"])
def test_a_number_is_constant(given: Any) -> None:
    assert value_at(Config.model_validate({"rate": given}).rate, 12345) == 3.0e-4


def test_one_point_is_constant() -> None:
    assert value_at(Config.model_validate({"rate": [[0, 2]]}).rate, 7) == 2.0


def test_a_dumped_schedule_reads_back() -> None:
    config = Config.model_validate({"rate": [[0, 1.0], [10, 0.5]]})
    dumped = config.model_dump(mode="json")
    assert dumped == {"rate": [[0.0, 1.0], [10.0, 0.5]]}
    assert Config.model_validate(dumped) == config


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "at least one"),
        ([[10, 1.0], [10, 0.5]], "must increase"),
        ([[10, 1.0], [0, 0.5]], "must increase"),
        ([[-1, 1.0]], "0 or more"),
        ([[0, float("nan")]], "finite"),
        ("fast", "a list of .env_step, value., not 'fast'"),
        ("nan", "finite"),
        (None, "a list of .env_step, value., not None"),
        (True, "a list of .env_step, value., not True"),
        ([[0, 1.0, 2.0]], "a list of .env_step, value."),
        ([1, 2], "a list of .env_step, value., not .1, 2."),
    ],
)
def test_what_is_no_schedule_is_refused(given: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message) as caught:
        Config.model_validate({"rate": given})
    assert caught.value.error_count() == 1
    if given != [[0, float("nan")]] and given == given:
        with pytest.raises(ValidationError, match=message):
            Config.model_validate_json(json.dumps({"rate": given}), strict=True)


class Rates(BaseModel):
    rate: NonNegativeSchedule


def test_a_rate_is_a_schedule_that_is_never_negative() -> None:
    for given in (0, 0.5, [[0, 1.0], [10, 0.0]]):
        assert value_at(Rates.model_validate({"rate": given}).rate, 3) == value_at(given, 3)
        assert Config.model_validate({"rate": given}).rate == Rates.model_validate({"rate": given}).rate
    for given, lowest in ((-0.5, "-0.5"), ([[0, 1.0], [10, -2]], "-2")):
        with pytest.raises(ValidationError, match=f"should be 0 or more, not {lowest}"):
            Rates.model_validate({"rate": given})
        assert Config.model_validate({"rate": given})


class Bounds(BaseModel):
    bound: PositiveSchedule | None = 0.2


def test_a_bound_is_a_schedule_that_is_not_always_zero() -> None:
    for given in (0.1, [[0, 0.2], [10, 0.0]]):
        assert value_at(Bounds.model_validate({"bound": given}).bound, 0) == value_at(given, 0)
    for given, message in ((0, "above 0"), ([[0, 0.0]], "above 0"), ([[0, 0.1], [1, -0.1]], "0 or more"), (-1, "0 or")):
        with pytest.raises(ValidationError, match=message):
            Bounds.model_validate({"bound": given})
    assert Bounds.model_validate({"bound": None}).bound is None


def test_texts_are_no_numbers_where_settings_are_plain() -> None:
    with pytest.raises(ValidationError, match="not '3e-4'"):
        Config.model_validate_json('{"rate": "3e-4"}', strict=True)
    assert Config.model_validate_json('{"rate": [[0, 1], [5, 0.5]]}', strict=True).rate == ((0.0, 1.0), (5.0, 0.5))
