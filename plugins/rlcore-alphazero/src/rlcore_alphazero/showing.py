"""A ladder shown: as tables, as JSON and as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rlcore.errors import UserError
from rlcore_alphazero.ladder import Judged, Rung


def table(rungs: Sequence[Rung]) -> str:
    """A line a version and a column an opponent: points in percent, and wins, draws and losses."""
    opponents = list(dict.fromkeys(rung.opponent for rung in rungs))
    cells = {(rung.iteration, rung.opponent): _points(rung) for rung in rungs}
    return _lines(_versions(rungs), opponents, cells)


def mistakes_table(judged: Sequence[Judged]) -> str:
    """A line a version and a column a part of the solved positions: mistakes with the search, and of the network
    alone, in percent."""
    parts = list(dict.fromkeys(one.part for one in judged))
    cells = {(one.iteration, one.part): _shares(one) for one in judged}
    return _lines(_versions(judged), parts, cells)


def trees(rows: Sequence[Rung] | Sequence[Judged]) -> list[dict[str, Any]]:
    """As JSON has them."""
    return [asdict(row) for row in rows]


def draw(rungs: Sequence[Rung], judged: Sequence[Judged], path: Path) -> Path:
    """A picture: the share of the points against every player of known strength, over environment steps, and beside it
    the mistakes, where there are any to be counted. ``UserError`` where matplotlib is not installed."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        hint = "pip install matplotlib"
        raise UserError(f"drawing needs matplotlib, which cannot be imported ({error}): {hint}") from error
    panels = 2 if judged else 1
    figure = Figure(figsize=(6.0 * panels, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, panels, squeeze=False)[0]
    _draw_points(axes[0], rungs)
    if judged:
        _draw_mistakes(axes[1], judged)
    figure.savefig(path)
    return path


def _draw_points(axes: Any, rungs: Sequence[Rung]) -> None:
    for opponent in dict.fromkeys(rung.opponent for rung in rungs if not rung.opponent.startswith("version-")):
        own = [rung for rung in rungs if rung.opponent == opponent]
        axes.plot([rung.env_steps for rung in own], [100 * rung.rate for rung in own], marker="o", label=opponent)
    axes.axhline(50.0, color="grey", linewidth=0.8)
    axes.set(xlabel="environment steps", ylabel="points in percent", ylim=(-3, 103))
    axes.legend(title="against")


def _draw_mistakes(axes: Any, judged: Sequence[Judged]) -> None:
    for number, part in enumerate(dict.fromkeys(one.part for one in judged)):
        own = [one for one in judged if one.part == part]
        steps, colour = [one.env_steps for one in own], f"C{number}"
        axes.plot(steps, [100 * one.mistakes for one in own], marker="o", color=colour, label=part)
        axes.plot(steps, [100 * one.network_mistakes for one in own], linestyle=":", color=colour)
    axes.set(xlabel="environment steps", ylabel="mistakes in percent (dotted: the network alone)")
    axes.set_ylim(bottom=0.0)
    axes.legend(title="positions")


def _versions(rows: Sequence[Rung] | Sequence[Judged]) -> list[tuple[int, int]]:
    return list(dict.fromkeys((row.iteration, row.env_steps) for row in rows))


def _points(rung: Rung) -> str:
    return f"{100 * rung.rate:.0f}% {rung.wins}/{rung.draws}/{rung.losses}"


def _shares(judged: Judged) -> str:
    return f"{100 * judged.mistakes:.1f}% {100 * judged.network_mistakes:.1f}%"


def _lines(
    versions: Sequence[tuple[int, int]], columns: Sequence[str], cells: Mapping[tuple[int, str], str]
) -> str:
    lines = [["iteration", "env steps", *columns]]
    for iteration, env_steps in versions:
        lines.append([str(iteration), str(env_steps), *(cells.get((iteration, column), "") for column in columns)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
