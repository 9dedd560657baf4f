"""Small workers for tests of runtimes; importable in other processes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rlcore.runtime.base import Runtime

if TYPE_CHECKING:
    from rlcore.policy_evaluator import PolicyEvaluator


class Holder:
    """An object with an array, as arguments and results may be."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array


class Place(NamedTuple):
    """Where the weights ``w`` are that a worker was sent: the file that is mapped there, and the memory it costs."""

    total: float
    owned: bool
    writeable: bool
    file: str | None
    shared: bool
    private_kb: int


class Receiver:
    """Takes what evaluators are sent, and tells where it lies."""

    def __init__(self, index: int) -> None:
        self._places: list[Place] = []

    def receive(self, update: Any) -> None:
        array = update.weights["default"]["w"]
        total = float(array.sum(dtype=np.float64))
        lines = _mapping(array.__array_interface__["data"][0])
        fields = lines[0].split() if lines else []
        sizes = {line.split()[0]: int(line.split()[1]) for line in lines[1:] if line.endswith("kB")}
        self._places.append(
            Place(
                total,
                bool(array.flags.owndata),
                bool(array.flags.writeable),
                fields[5] if len(fields) > 5 else None,
                bool(fields) and fields[1].endswith("s"),
                sizes.get("Private_Clean:", 0) + sizes.get("Private_Dirty:", 0),
            )
        )

    def seen(self) -> list[Place]:
        return self._places

    def close(self) -> None:
        """As evaluators are closed."""


def _mapping(address: int) -> list[str]:
    """What Linux tells of the memory at ``address``: the line of its mapping, and those of its sizes."""
    found: list[str] = []
    for line in Path("/proc/self/smaps").read_text().splitlines():
        bounds = line.split(" ", 1)[0].split("-")
        if len(bounds) == 2:
            if found:
                return found
            if int(bounds[0], 16) <= address < int(bounds[1], 16):
                found = [line]
        elif found:
            found.append(line)
    return found


class Counter:
    """Adds, notes, fails, echoes."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.values = np.zeros(3)
        self.calls: list[int] = []

    def add(self, amount: float) -> np.ndarray:
        self.values += amount
        return self.values

    def note(self, number: int) -> int:
        self.calls.append(number)
        return number

    def history(self) -> list[int]:
        return self.calls

    def pair(self) -> tuple[int, str]:
        return 1, "two"

    def echo(self, value: object) -> object:
        return value

    def several(self, *values: object) -> tuple[object, ...]:
        return values

    def write(self, array: np.ndarray) -> None:
        array[0] = 1

    def fail(self) -> None:
        raise KeyError("boom")

    def fail_because(self) -> None:
        try:
            raise ZeroDivisionError("inner")
        except ZeroDivisionError as error:
            raise KeyError("outer") from error

    def fail_while(self) -> None:
        try:
            raise ZeroDivisionError("inner")
        except ZeroDivisionError:
            raise KeyError("outer")  # noqa: B904  the context is what is tested

    def fail_unsendably(self) -> None:
        raise Unsendable("a", "b")


class Unsendable(Exception):
    """Is pickled, and cannot be made again."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


class Process(Counter):
    """Tells about the process that it is in."""

    def pid(self) -> int:
        return os.getpid()

    def sleep(self, seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    def variables(self) -> dict[str, str]:
        return dict(os.environ)

    def modules(self) -> set[str]:
        return {name.partition(".")[0] for name in sys.modules}

    def own_memory(self) -> int:
        """Bytes that no other process shares."""
        with open("/proc/self/smaps_rollup") as file:
            lines = [line.split() for line in file]
        return sum(int(line[1]) << 10 for line in lines if line[0] in ("Private_Clean:", "Private_Dirty:"))


class Sampling(Process):
    """Holds an evaluator that samples."""

    def __init__(self, build: Callable[[], PolicyEvaluator]) -> None:
        super().__init__()
        self.evaluator = build()

    def sample(self) -> int:
        return self.evaluator.sample_counted()[0].env_steps


class Driver:
    """A worker that drives workers of its own."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.handles = [runtime.spawn(Process) for _ in range(2)]

    def pids(self) -> list[int]:
        found: list[int] = self.runtime.get([handle.submit("pid") for handle in self.handles])
        return found

    def call(self, method: str, *args: Any) -> Any:
        return self.runtime.get(self.handles[0].submit(method, *args))

    def lose(self) -> None:
        self.runtime.kill(self.handles[0])
        self.call("pid")


def replicas(evaluators: Any) -> list[PolicyEvaluator]:
    """The evaluators of a set whose runtime has them in this process."""
    return [handle._worker for handle in evaluators.handles]
