"""How a training looks from outside: a live line on a terminal, else one plain line for each iteration. On stderr."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlcore.config import RunConfig

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Pace:
    """How far a run is towards its stop keys, and how long it still takes at the pace so far."""

    def __init__(self, stop: Mapping[str, float]) -> None:
        self._targets = {key: target for key, target in stop.items() if key in GROWING}
        self._first: Mapping[str, Any] | None = None

    def seconds_left(self, row: Mapping[str, Any]) -> float | None:
        """Until the first of the growing keys is reached, at the pace since the first row; None where none is set.

        A return that is aimed for may well be reached before.
        """
        if self._first is None:
            self._first = row
        passed = row["wall_s"] - self._first["wall_s"]
        left = []
        for key, target in self._targets.items():
            # The first row has no predecessor: its own pace since the run began.
            since = self._first[key] if passed > 0 else 0
            grown, seconds = row[key] - since, passed if passed > 0 else row["wall_s"]
            if grown > 0:
                left.append(max(0.0, (target - row[key]) * seconds / grown))
        return min(left, default=None)

    def fraction(self, row: Mapping[str, Any]) -> float | None:
        """How much of the way to the nearest growing key is done, 0 to 1; None where none is set."""
        return max((min(1.0, row[key] / target) for key, target in self._targets.items() if target > 0), default=None)


#: Keys of a row that only ever grow, so that the time until they are reached can be told.
GROWING = ("env_steps", "iteration", "episodes", "learnt_rows", "updates", "wall_s")


class PlainProgress:
    """A hook that writes a line for each iteration."""

    def run_start(self, config: RunConfig, out: Path | None) -> None:
        """Remembers what the run stops at."""
        self._pace = Pace(config.stop)

    def iteration(self, row: Mapping[str, Any]) -> None:
        """One line."""
        parts = [
            f"iteration {row['iteration']}",
            f"env_steps {row['env_steps']}",
            f"return {number(row['episode_return_mean'])}",
        ]
        if row["evaluation_return_mean"] is not None:
            parts.append(f"evaluation {number(row['evaluation_return_mean'])}")
        parts.append(f"{number(row['env_steps_per_s'], 0)} steps/s")
        left = self._pace.seconds_left(row)
        if left is not None:
            parts.append(f"{duration(left)} left")
        click.echo("  ".join(parts), err=True)

    def worker_lost(self, index: int, cause: str, worker: str) -> None:
        """Says so."""
        click.echo(f"{worker} {index} was lost and is replaced: {cause}", err=True)

    def places_vacant(self, places: Sequence[int], size: int) -> None:
        """Says who is not there."""
        click.echo(who_is_there(places, size), err=True)

    def close(self) -> None:
        """Nothing is held."""


class LiveProgress:
    """A hook that keeps one line up to date: return, steps per second, time left."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def run_start(self, config: RunConfig, out: Path | None) -> None:
        """Shows the line."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        self._pace = Pace(config.stop)
        self._progress = Progress(
            SpinnerColumn(),
            BarColumn(bar_width=20),
            TextColumn("{task.description}", markup=False),
            console=Console(stderr=True),
            refresh_per_second=4,
        )
        self._task = self._progress.add_task("the first iteration", total=None)
        self._progress.start()

    def iteration(self, row: Mapping[str, Any]) -> None:
        """Brings the line up to date."""
        if self._progress is None or self._task is None:
            return
        left, fraction = self._pace.seconds_left(row), self._pace.fraction(row)
        parts = [
            f"return {number(row['episode_return_mean'])}",
            f"{row['env_steps']:,} steps",
            f"{number(row['env_steps_per_s'], 0)} steps/s",
            f"{duration(left)} left" if left is not None else f"{duration(row['wall_s'])} so far",
        ]
        self._progress.update(self._task, description="  ".join(parts), total=1.0 if fraction is not None else None)
        if fraction is not None:
            self._progress.update(self._task, completed=fraction)
        if row["evaluation_return_mean"] is not None:
            evaluation = number(row["evaluation_return_mean"])
            self._progress.print(f"{row['env_steps']:,} steps: evaluation {evaluation}", highlight=False)

    def worker_lost(self, index: int, cause: str, worker: str) -> None:
        """Says so above the line."""
        if self._progress is not None:
            self._progress.print(f"{worker} {index} was lost and is replaced: {cause}", markup=False, highlight=False)

    def places_vacant(self, places: Sequence[int], size: int) -> None:
        """Says above the line who is not there."""
        if self._progress is not None:
            self._progress.print(who_is_there(places, size), markup=False, highlight=False)

    def close(self) -> None:
        """Leaves the last state of the line, and gives the terminal back."""
        if self._progress is not None:
            self._progress.stop()


def watcher() -> PlainProgress | LiveProgress:
    """The one that suits what stderr is connected to."""
    return LiveProgress() if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" else PlainProgress()


def who_is_there(vacant: Sequence[int], size: int) -> str:
    """What is said of evaluators that there is no room for."""
    if not vacant:
        return f"there is room again: all {size} evaluators take part"
    which = f"evaluator{'s' if len(vacant) > 1 else ''} {', '.join(map(str, vacant))}"
    if len(vacant) == size:
        return f"there is no room for {which}, which are all: waiting for some"
    return f"there is no room for {which}: going on with {size - len(vacant)} of {size}"


def number(value: float | None, digits: int = 1) -> str:
    """``"187.3"``; ``"-"`` where there is none yet."""
    return "-" if value is None else f"{value:,.{digits}f}" if digits == 0 else f"{value:.{digits}f}"


def duration(seconds: float) -> str:
    """``"12 s"``, ``"3:05 min"``, ``"2:10 h"``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02d} h"


class _Said(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


@contextmanager
def logs_said() -> Iterator[None]:
    """What rlcore logs meanwhile, information included, is said."""
    logger, handler = logging.getLogger("rlcore"), _Said()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def say(*lines: str) -> None:
    """Lines for people, on stderr."""
    for line in lines:
        print(line, file=sys.stderr, flush=True)
