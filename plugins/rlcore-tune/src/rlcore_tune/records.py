"""What has happened to the trials of a search: a line of JSON for each event, and the trials as these leave them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from rlcore.errors import RunFolderError


class Status(StrEnum):
    """How a trial stands."""

    WAITING = "waiting"
    UNFINISHED = "unfinished"
    FINISHED = "finished"
    STOPPED = "stopped early"
    FAILED = "failed"

    @property
    def over(self) -> bool:
        """Whether the trial is not to be run again."""
        return self in (Status.FINISHED, Status.STOPPED, Status.FAILED)


def finite(value: float | None) -> float | None:
    """``value``; None for NaN and infinity, by which trials cannot be compared."""
    return value if value is not None and math.isfinite(value) else None


@dataclass(frozen=True)
class Report:
    """What a trial said after some environment steps; ``settings`` are those that it has had since the last report."""

    env_steps: int
    #: The metric, finite; None where no row has had one yet.
    value: float | None
    settings: Mapping[str, Any]
    #: The trial whose state it had taken over before, and the steps at which it did.
    copied_from: int | None = None
    copied_at: int | None = None


@dataclass
class TrialRecord:
    """One trial: its settings as they are now, its reports in the order of their steps, and how it stands."""

    index: int
    settings: Mapping[str, Any]
    reports: list[Report] = field(default_factory=list)
    status: Status = Status.WAITING
    #: Why it is over: the stop key that was reached, or the error.
    reason: str | None = None
    #: How often its process was lost.
    losses: int = 0

    @property
    def env_steps(self) -> int:
        """Environment steps at the last report."""
        return self.reports[-1].env_steps if self.reports else 0

    @property
    def value(self) -> float | None:
        """The metric as it was last."""
        values = [report.value for report in self.reports if report.value is not None]
        return values[-1] if values else None

    def best(self, sign: float) -> float | None:
        """The best value of the metric so far; ``sign`` is 1 where more is better, else -1."""
        values = [report.value for report in self.reports if report.value is not None]
        return max(values, key=lambda value: sign * value, default=None)

    def copies(self) -> list[Report]:
        """The first report after each time that it took over from another."""
        return [report for report in self.reports if report.copied_from is not None]

    def add(self, report: Report) -> None:
        """Notes a report; those of a future that the trial has given up are dropped."""
        self.reports = [each for each in self.reports if each.env_steps < report.env_steps]
        self.reports.append(report)
        self.settings = report.settings
        self.status = Status.UNFINISHED


@dataclass(frozen=True)
class Stretch:
    """Environment steps that a policy was trained for in one trial, with the same settings."""

    trial: int
    start: int
    end: int
    settings: Mapping[str, Any]


def ancestry(trials: Sequence[TrialRecord], last: TrialRecord) -> list[Stretch]:
    """The stretches that led to where ``last`` is, through the trials that were taken over from, the earliest first.

    Their settings one after the other are the schedule that population based training has found.
    """
    stretches: list[Stretch] = []
    record, end = last, last.env_steps
    while True:
        copies = [report for report in record.copies() if (report.copied_at or 0) < end]
        start = copies[-1].copied_at or 0 if copies else 0
        within = [report.settings for report in record.reports if start < report.env_steps <= end]
        stretches.append(Stretch(record.index, start, end, within[-1] if within else record.settings))
        if not copies or copies[-1].copied_from is None:
            return stretches[::-1]
        record, end = trials[copies[-1].copied_from], start


class TrialLog:
    """The events of a search, in a file that only its driver writes; a kill can cut the last line short."""

    def __init__(self, path: Path, trials: Iterable[Mapping[str, Any]]) -> None:
        self.path = path
        self.trials = [TrialRecord(index, settings) for index, settings in enumerate(trials)]
        for event in self._events():
            self._take_in(event)

    def reported(self, trial: int, report: Report) -> None:
        """A trial has reported."""
        self._note({"trial": trial, "event": "report", **_plain(report)})

    def over(self, trial: int, status: Status, reason: str | None) -> None:
        """A trial is over."""
        self._note({"trial": trial, "event": "over", "status": str(status), "reason": reason})

    def lost(self, trial: int, reason: str) -> None:
        """The process of a trial was lost; it goes on in another one."""
        self._note({"trial": trial, "event": "lost", "reason": reason})

    def _note(self, event: dict[str, Any]) -> None:
        with open(self.path, "ab") as file:
            file.write(json.dumps(event, allow_nan=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._take_in(event)

    def _take_in(self, event: Mapping[str, Any]) -> None:
        record = self.trials[event["trial"]]
        if event["event"] == "report":
            keys = ("env_steps", "value", "settings", "copied_from", "copied_at")
            record.add(Report(**{key: event[key] for key in keys}))
        elif event["event"] == "over":
            record.status, record.reason = Status(event["status"]), event["reason"]
        else:
            record.losses += 1

    def _events(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        content = self.path.read_bytes()
        *complete, cut_short = content.split(b"\n")
        if cut_short:
            # What is written next begins a line.
            with open(self.path, "rb+") as file:
                file.truncate(len(content) - len(cut_short))
        try:
            events = [json.loads(line) for line in complete]
            known = all(0 <= event["trial"] < len(self.trials) for event in events)
        except (ValueError, KeyError, TypeError) as error:
            raise RunFolderError(f"{self.path} is damaged: {error}") from error
        if not known:
            raise RunFolderError(f"{self.path} is damaged: it tells of trials that the search does not have")
        return events


def _plain(report: Report) -> dict[str, Any]:
    return {
        "env_steps": report.env_steps,
        "value": report.value,
        "settings": dict(report.settings),
        "copied_from": report.copied_from,
        "copied_at": report.copied_at,
    }
