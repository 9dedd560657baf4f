"""The worker that the rules for runtimes spawn."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.runtime.base import Runtime


class ProbeError(Exception):
    """An exception with data of its own, which has to come back whole."""

    def __init__(self, what: str, number: int) -> None:
        super().__init__(what, number)
        self.what = what
        self.number = number


class Probe:
    """Does as it is told, and keeps what it was given."""

    def __init__(self) -> None:
        self._values = np.zeros(3)
        self._calls: list[int] = []
        self._kept: Any = None

    def add(self, amount: float) -> NDArray[np.float64]:
        """Adds to its array, and returns that array itself."""
        self._values += amount
        return self._values

    def note(self, number: int) -> int:
        """Notes that it was called."""
        self._calls.append(number)
        return number

    def history(self) -> list[int]:
        """The calls of ``note``, in order."""
        return list(self._calls)

    def echo(self, value: Any) -> Any:
        """Its argument."""
        return value

    def describe(self, value: Any) -> str:
        """The type and the value of its argument."""
        return f"{type(value).__name__} {value!r}"

    def several(self, *values: Any) -> tuple[Any, ...]:
        """Its arguments as several results."""
        return values

    def keep(self, value: Any) -> None:
        """Keeps its argument."""
        self._kept = value

    def kept(self) -> Any:
        """What it keeps."""
        return self._kept

    def can_write(self, array: NDArray[Any]) -> bool:
        """Whether it can write into its argument."""
        try:
            array[...] = -1.0
        except ValueError:
            return False
        return True

    def fail(self, what: str, number: int) -> None:
        """Raises."""
        raise ProbeError(what, number)

    def sleep(self, seconds: float) -> float:
        """Takes its time."""
        time.sleep(seconds)
        return seconds

    def process(self) -> int:
        """The number of its process."""
        return os.getpid()

    def drive(self, runtime: Runtime, numbers: list[int]) -> list[int]:
        """Has a worker of its own, in the runtime that it was given, note ``numbers``."""
        handle = runtime.spawn(Probe)
        refs = [handle.submit("note", number) for number in numbers]
        noted: list[int] = runtime.get(refs)
        runtime.kill(handle)
        return noted


def cannot_be_built() -> Probe:
    """A worker's build that fails."""
    raise ProbeError("no worker", 7)
