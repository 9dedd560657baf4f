"""Pictures of a search: how the trials went, and the schedules of settings that population based training found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore_tune.records import Report, Status, Stretch, TrialRecord, ancestry
from rlcore_tune.report import last_part
from rlcore_tune.search import SearchResult
from rlcore_tune.spaces import LogUniform

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRIALS, SCHEDULE = "trials.png", "schedule.png"

#: How the last report of a trial is marked.
MARKS = {Status.FINISHED: "o", Status.STOPPED: "x", Status.FAILED: "X"}


def draw(result: SearchResult, folder: Path) -> list[Path]:
    """Draws the trials, and where some have taken over from others also their schedules; returns the files."""
    drawn = [(folder / TRIALS, draw_trials(result))]
    if any(record.copies() for record in result.trials):
        drawn.append((folder / SCHEDULE, draw_schedule(result)))
    for path, figure in drawn:
        figure.savefig(path)
    return [path for path, _ in drawn]


def draw_trials(result: SearchResult) -> Figure:
    """The metric of every trial over its environment steps; what was stopped early ends in a cross."""
    figure = _figure(8, 5)
    axes = figure.add_subplot()
    for record in result.trials:
        _draw_values(axes, record)
    axes.set_ylabel(result.search.metric)
    _finish(figure, axes)
    return figure


def draw_schedule(result: SearchResult) -> Figure:
    """Below the metric, each setting that is a number over the environment steps; rings are where a trial took over.

    A broad line is the schedule that led to the best trial, from trial to trial.
    """
    keys = [key for key in result.search.space if all(_is_number(record.settings[key]) for record in result.trials)]
    figure = _figure(8, 3 + 2.2 * len(keys))
    rows: list[Axes] = list(figure.subplots(1 + len(keys), 1, sharex=True, squeeze=False)[:, 0])
    for record in result.trials:
        _draw_values(rows[0], record)
        for axes, key in zip(rows[1:], keys, strict=True):
            _draw_setting(axes, record, key)
    best = result.best()
    for number, (axes, key) in enumerate(zip(rows[1:], keys, strict=True)):
        if best is not None:
            label = None if number else f"what led to trial {best.index}"
            _draw_found(axes, ancestry(result.trials, best), key, label)
    rows[0].set_ylabel(result.search.metric)
    for axes, key in zip(rows[1:], keys, strict=True):
        axes.set_ylabel(last_part(key))
        if isinstance(result.search.space[key], LogUniform):
            axes.set_yscale("log")
        axes.grid(alpha=0.3)
    _finish(figure, rows[-1])
    rows[0].grid(alpha=0.3)
    return figure


def setting_steps(record: TrialRecord, key: str) -> tuple[list[int], list[Any]]:
    """The setting ``key`` over the environment steps as the corners of a staircase: steps, and values from there on."""
    steps, values = [0], [record.reports[0].settings[key]] if record.reports else [record.settings[key]]
    for report in record.reports:
        if report.settings[key] != values[-1]:
            steps.append(_since(report, record))
            values.append(report.settings[key])
    return [*steps, max(record.env_steps, steps[-1])], [*values, values[-1]]


def _since(report: Report, record: TrialRecord) -> int:
    """Since when the settings of a report were in force."""
    if report.copied_at is not None:
        return report.copied_at
    before = [each.env_steps for each in record.reports if each.env_steps < report.env_steps]
    return before[-1] if before else 0


def _draw_values(axes: Axes, record: TrialRecord) -> None:
    points = [(report.env_steps, report.value) for report in record.reports if report.value is not None]
    if not points:
        return
    steps, values = zip(*points, strict=True)
    color = _color(record)
    axes.plot(steps, values, color=color, linewidth=1.4, marker=".", label=f"trial {record.index}")
    if record.status in MARKS:
        axes.plot(steps[-1], values[-1], color=color, marker=MARKS[record.status], markersize=8)
    for report in record.copies():
        if report.value is not None:
            axes.plot(report.env_steps, report.value, color=color, marker="o", fillstyle="none", markersize=11)


def _draw_setting(axes: Axes, record: TrialRecord, key: str) -> None:
    steps, values = setting_steps(record, key)
    axes.step(steps, values, where="post", color=_color(record), linewidth=1.4)
    for report in record.copies():
        axes.plot(_since(report, record), report.settings[key], color=_color(record), marker="o", fillstyle="none")


def _draw_found(axes: Axes, stretches: Sequence[Stretch], key: str, label: str | None) -> None:
    """The schedule that led to the best trial, beneath the others."""
    steps = [stretches[0].start, *(stretch.end for stretch in stretches)]
    values = [stretch.settings[key] for stretch in stretches]
    axes.step(steps, [*values, values[-1]], where="post", color="black", alpha=0.25, linewidth=6, label=label, zorder=0)


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=120, layout="constrained")


def _finish(figure: Figure, lowest: Axes) -> None:
    lowest.set_xlabel("environment steps")
    lowest.xaxis.set_major_formatter("{x:,.0f}")
    lowest.grid(alpha=0.3)
    figure.legend(fontsize="small", loc="outside lower center", ncols=6)


def _color(record: TrialRecord) -> str:
    return f"C{record.index % 10}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
