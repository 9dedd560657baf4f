"""Schedules as data: a number, or a line through points ``[environment step, value]``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from numbers import Real
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, BeforeValidator, FiniteFloat, ValidationInfo

from rlcore.validation import shown

Points = tuple[tuple[FiniteFloat, FiniteFloat], ...]


def _read(schedule: Any, info: ValidationInfo) -> Any:
    """Lists as tuples. One reason for whatever is no schedule: the branches of a union would give one each."""
    if _is_number(schedule) or (isinstance(schedule, str) and info.mode == "python" and _is_number_text(schedule)):
        return schedule
    if not isinstance(schedule, list | tuple) or not all(map(_is_point, schedule)):
        raise ValueError(f"should be a finite number or a list of [env_step, value], not {shown(schedule)}")
    steps = [step for step, _ in schedule]
    if not steps:
        raise ValueError("a schedule needs at least one [env_step, value]")
    if steps[0] < 0:
        raise ValueError(f"the steps of a schedule are 0 or more, got {steps}")
    if any(later <= earlier for earlier, later in pairwise(steps)):
        raise ValueError(f"the steps of a schedule must increase, got {steps}")
    return tuple(tuple(point) for point in schedule)


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)


def _is_number_text(text: str) -> bool:
    """Where values are taken as Python's, YAML's ``3e-4`` is a text that pydantic reads as a number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _is_point(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_number, value))


#: A field type of configs. ``3.0e-4`` is constant; ``[[0, 1.0], [10000, 0.05]]`` falls linearly and stays at 0.05.
Schedule = Annotated[FiniteFloat | Points, BeforeValidator(_read)]


def _values(schedule: float | Points) -> list[float]:
    return [value for _, value in schedule] if isinstance(schedule, tuple) else [schedule]


def _not_negative(schedule: float | Points) -> float | Points:
    lowest = min(_values(schedule))
    if lowest < 0:
        raise ValueError(f"should be 0 or more, not {lowest:g}")
    return schedule


def _not_always_zero(schedule: float | Points) -> float | Points:
    if not any(_values(schedule)):
        raise ValueError("should be above 0, not 0 all the time")
    return schedule


#: The same for rates and coefficients, which cannot be negative.
NonNegativeSchedule = Annotated[Schedule, AfterValidator(_not_negative)]

#: The same for bounds, which may come to 0 but cannot be 0 all the time.
PositiveSchedule = Annotated[NonNegativeSchedule, AfterValidator(_not_always_zero)]


def value_at(schedule: float | Sequence[Sequence[float]], env_steps: int) -> float:
    """The value after ``env_steps`` environment steps: linear between points, constant outside them."""
    if isinstance(schedule, int | float):
        return float(schedule)
    return float(np.interp(env_steps, [step for step, _ in schedule], [value for _, value in schedule]))
