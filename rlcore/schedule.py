"""Schedules as data: a number, or a line through points ``[environment step, value]``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import numpy as np
from pydantic import AfterValidator, FiniteFloat, NonNegativeFloat

Points = tuple[tuple[NonNegativeFloat, FiniteFloat], ...]


def _increasing(schedule: float | Points) -> float | Points:
    if isinstance(schedule, tuple):
        steps = [step for step, _ in schedule]
        if not steps:
            raise ValueError("a schedule needs at least one [env_step, value]")
        if any(later <= earlier for earlier, later in pairwise(steps)):
            raise ValueError(f"the steps of a schedule must increase, got {steps}")
    return schedule


#: A field type of configs. ``3.0e-4`` is constant; ``[[0, 1.0], [10000, 0.05]]`` falls linearly and stays at 0.05.
Schedule = Annotated[FiniteFloat | Points, AfterValidator(_increasing)]


def _not_negative(schedule: float | Points) -> float | Points:
    lowest = min(value for _, value in schedule) if isinstance(schedule, tuple) else schedule
    if lowest < 0:
        raise ValueError(f"should be 0 or more, not {lowest:g}")
    return schedule


#: The same for rates and coefficients, which cannot be negative.
NonNegativeSchedule = Annotated[Schedule, AfterValidator(_not_negative)]


def value_at(schedule: float | Sequence[Sequence[float]], env_steps: int) -> float:
    """The value after ``env_steps`` environment steps: linear between points, constant outside them."""
    if isinstance(schedule, int | float):
        return float(schedule)
    return float(np.interp(env_steps, [step for step, _ in schedule], [value for _, value in schedule]))
