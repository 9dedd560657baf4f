"""What a setting is drawn from: the search space of one dotted key, as YAML says it. It knows no trials."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from rlcore.config import Integer, Section
from rlcore.errors import ConfigError
from rlcore.validation import meant_or_known, shown, validate_plain

Number = float | int


class Distribution(Section):
    """Base of what values are drawn from. In YAML it is a mapping with one key, its name, and what it needs."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Any:
        """One value."""

    @abstractmethod
    def perturb(self, value: Any, factor: float, rng: np.random.Generator) -> Any:
        """A value near ``value``, and never outside of what can be drawn: a number times ``factor``, of a list the
        value beside it."""


class Choice(Distribution):
    """One of several values, each as likely as the others. Its neighbours are those beside it in the list."""

    choice: list[Any] = Field(min_length=1)

    def draw(self, rng: np.random.Generator) -> Any:
        return self.choice[int(rng.integers(len(self.choice)))]

    def perturb(self, value: Any, factor: float, rng: np.random.Generator) -> Any:
        if value not in self.choice:
            return self.draw(rng)
        beside = self.choice.index(value) + (1 if factor > 1.0 else -1)
        return self.choice[min(max(beside, 0), len(self.choice) - 1)]


class Grid(Distribution):
    """Each of several values: every draw of the rest of the space is tried with each of them."""

    grid: list[Any] = Field(min_length=1)

    def draw(self, rng: np.random.Generator) -> Any:
        return self.grid[int(rng.integers(len(self.grid)))]

    def perturb(self, value: Any, factor: float, rng: np.random.Generator) -> Any:
        return Choice(choice=self.grid).perturb(value, factor, rng)


class _Between(Distribution):
    """Numbers between two bounds."""

    @property
    @abstractmethod
    def bounds(self) -> tuple[Number, Number]:
        """The lowest and the highest."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        low, high = self.bounds
        if not low < high:
            raise ValueError(f"the first bound should be below the second, not {low:g} and {high:g}")
        return self

    def perturb(self, value: Any, factor: float, rng: np.random.Generator) -> Any:
        low, high = self.bounds
        return float(min(max(float(value) * factor, low), high))


class Uniform(_Between):
    """Real numbers of ``[low, high)``, all as likely."""

    uniform: tuple[float, float]

    @property
    def bounds(self) -> tuple[Number, Number]:
        return self.uniform

    def draw(self, rng: np.random.Generator) -> Any:
        return float(rng.uniform(*self.uniform))


class LogUniform(_Between):
    """Real numbers of ``[low, high)`` whose logarithms are all as likely; for scales, such as learning rates."""

    log_uniform: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]]

    @property
    def bounds(self) -> tuple[Number, Number]:
        return self.log_uniform

    def draw(self, rng: np.random.Generator) -> Any:
        low, high = self.log_uniform
        return min(max(math.exp(rng.uniform(math.log(low), math.log(high))), low), high)


class Integers(_Between):
    """Whole numbers, both bounds among them, all as likely."""

    integers: tuple[Integer, Integer]

    @property
    def bounds(self) -> tuple[Number, Number]:
        return self.integers

    def draw(self, rng: np.random.Generator) -> Any:
        low, high = self.integers
        return int(rng.integers(low, high, endpoint=True))

    def perturb(self, value: Any, factor: float, rng: np.random.Generator) -> Any:
        low, high = self.integers
        # At least by one, or small numbers would never change.
        moved = round(value * factor)
        moved = moved if moved != value else value + (1 if factor > 1.0 else -1)
        return int(min(max(moved, low), high))


#: What a search space may consist of, by the key that it has in YAML.
DISTRIBUTIONS: Mapping[str, type[Distribution]] = {
    "choice": Choice,
    "uniform": Uniform,
    "log_uniform": LogUniform,
    "integers": Integers,
    "grid": Grid,
}


def parse_distribution(settings: Any, key: str) -> Distribution:
    """What ``{uniform: [0, 1]}`` stands for; ``key`` is what messages call it. ``ConfigError`` in one line."""
    if isinstance(settings, Distribution):
        return settings
    if not isinstance(settings, Mapping) or len(settings) != 1:
        example = "such as {uniform: [0, 1]}"
        raise ConfigError(f"{key}: should be one of {', '.join(DISTRIBUTIONS)}, {example}, not {shown(settings)}")
    (name,) = settings
    if name not in DISTRIBUTIONS:
        raise ConfigError(f"{key}.{name}: nothing to draw from is called so{meant_or_known(str(name), DISTRIBUTIONS)}")
    try:
        return validate_plain(DISTRIBUTIONS[name], settings, key)
    except ConfigError as error:
        # What is wrong within a pair is wrong with the pair.
        raise ConfigError(str(error).replace(f"{key}: ", f"{key}.{name}: ", 1)) from None


def explore(
    settings: Mapping[str, Any],
    space: Mapping[str, Distribution],
    resample_probability: float,
    factors: tuple[float, float],
    rng: np.random.Generator,
) -> dict[str, Any]:
    """``settings`` changed a little, as population based training does (Jaderberg et al. 2017, section 3).

    Each is drawn anew with ``resample_probability``, and else perturbed by one of ``factors``, both as likely.
    """
    changed = dict(settings)
    for key in sorted(space):
        if rng.random() < resample_probability:
            changed[key] = space[key].draw(rng)
        else:
            changed[key] = space[key].perturb(settings[key], factors[int(rng.integers(2))], rng)
    return changed
