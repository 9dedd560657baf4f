"""Curves as one page of HTML that needs nothing but a browser: a drawing, and the values under the pointer."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

import numpy as np

from rlcore.plotting.curves import NAMES, Curve, Floats, Line, described, labels

#: Of the drawing, and of what is left around the curves for the axes.
WIDTH, HEIGHT = 900, 480
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 16, 52

#: Told apart by people who see few colours as well (Okabe and Ito 2008).
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666")

#: A line has no more points than this, which is more than the drawing has pixels.
MOST_POINTS = 1000


@dataclass(frozen=True)
class Scale:
    """Takes values from ``low`` to ``high`` to pixels from ``begin`` to ``end``."""

    low: float
    high: float
    begin: float
    end: float

    def __call__(self, values: Floats | float) -> Floats:
        share = (np.asarray(values, np.float64) - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)


@dataclass(frozen=True)
class Frame:
    """The two scales of a drawing."""

    x: Scale
    y: Scale

    def path(self, line: Line) -> str:
        """``"x,y x,y ..."`` in pixels."""
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(self.x(line[0]), self.y(line[1]), strict=True))


def page(curves: Sequence[Curve], key: str, over: str) -> str:
    """The page, self-contained: it loads nothing from anywhere."""
    names = labels(curves)
    frame = _frame(curves)
    shown = [_middle(curve) for curve in curves]
    data = {
        "over": over,
        "x": [frame.x.low, frame.x.high, frame.x.begin, frame.x.end],
        "curves": [
            {"label": name, "color": _color(number), "x": x.tolist(), "y": y.tolist()}
            for number, (name, (x, y)) in enumerate(zip(names, shown, strict=True))
        ],
    }
    template = Template((Path(__file__).parent / "page.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=html.escape(f"{NAMES.get(key, key)} over {NAMES.get(over, over)}"),
        drawing="\n".join(_drawing(curves, frame, key, over)),
        legend="\n".join(_legend(curves, names, key)),
        width=WIDTH,
        height=HEIGHT,
        top=TOP,
        bottom=HEIGHT - BOTTOM,
        # What ends a script is no part of it.
        data=json.dumps(data).replace("<", "\\u003c"),
    )


def ticks(low: float, high: float, most: int = 8) -> list[float]:
    """Round numbers from ``low`` to ``high``, ``most`` of them or fewer: multiples of 1, 2 or 5 times a power of 10."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [number * step for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def thinned(line: Line, most: int = MOST_POINTS) -> Line:
    """The line with ``most`` of its points, evenly picked, the first and the last among them."""
    count = len(line[0])
    if count <= most:
        return line
    picked = np.linspace(0, count - 1, most).round().astype(np.int64)
    return line[0][picked], line[1][picked]


def _middle(curve: Curve) -> Line:
    """What is read off under the pointer: the median where there are several runs."""
    spread = curve.spread()
    return thinned(curve.lines[0]) if spread is None else (spread.x, spread.median)


def _frame(curves: Sequence[Curve]) -> Frame:
    lines = [line for curve in curves for line in (*curve.lines, *curve.evaluations)]
    x = np.concatenate([line[0] for line in lines])
    y = np.concatenate([line[1] for line in lines] + [[curve.target] for curve in curves if curve.target is not None])
    return Frame(
        Scale(*_widened(float(x.min()), float(x.max()), 0.0), LEFT, WIDTH - RIGHT),
        Scale(*_widened(float(y.min()), float(y.max()), 0.04), HEIGHT - BOTTOM, TOP),
    )


def _widened(low: float, high: float, share: float) -> tuple[float, float]:
    """With some room at both ends; a single value has room as well."""
    room = (high - low) * share if high > low else max(1.0, abs(low)) * 0.5
    return low - room, high + room


def _drawing(curves: Sequence[Curve], frame: Frame, key: str, over: str) -> list[str]:
    parts = [*_axes(frame, key, over)]
    for target in sorted({curve.target for curve in curves if curve.target is not None}):
        y = float(frame.y(target))
        parts.append(f'<line class="target" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
    for number, curve in enumerate(curves):
        parts += _curve(curve, frame, _color(number))
    return parts


def _axes(frame: Frame, key: str, over: str) -> list[str]:
    parts, bottom = [], HEIGHT - BOTTOM
    for value in ticks(frame.y.low, frame.y.high):
        y = float(frame.y(value))
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_number(value)}</text>')
    for value in ticks(frame.x.low, frame.x.high):
        x = float(frame.x(value))
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{_number(value)}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    across = html.escape(NAMES.get(over, over))
    up = html.escape(NAMES.get(key, key))
    parts.append(f'<text class="axis" x="{middle:.1f}" y="{HEIGHT - 10}" text-anchor="middle">{across}</text>')
    y = (TOP + bottom) / 2
    parts.append(
        f'<text class="axis" transform="translate(16,{y:.1f}) rotate(-90)" text-anchor="middle">{up}</text>'
    )
    return parts


def _curve(curve: Curve, frame: Frame, color: str) -> list[str]:
    spread, parts = curve.spread(), []
    if spread is not None:
        around = (np.concatenate([spread.x, spread.x[::-1]]), np.concatenate([spread.upper, spread.lower[::-1]]))
        parts.append(f'<polygon class="spread" fill="{color}" points="{frame.path(around)}"/>')
    thin = ' class="run"' if len(curve.lines) > 1 else ""
    lines = [(thin, thinned(line)) for line in curve.lines]
    if spread is not None:
        lines.append(("", (spread.x, spread.median)))
    parts += [f'<polyline{kind} stroke="{color}" points="{frame.path(line)}"/>' for kind, line in lines]
    for line in curve.evaluations:
        for x, y in zip(frame.x(line[0]), frame.y(line[1]), strict=True):
            parts.append(f'<circle class="evaluation" fill="{color}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>')
    return parts


def _legend(curves: Sequence[Curve], names: Sequence[str], key: str) -> list[str]:
    items = []
    for number, (curve, name) in enumerate(zip(curves, names, strict=True)):
        text = described(curve, name, key)
        if any(len(line[0]) for line in curve.evaluations):
            text += "; points: evaluations"
        items.append(f'<li><span style="background:{_color(number)}"></span>{html.escape(text)}</li>')
    for target in sorted({curve.target for curve in curves if curve.target is not None}):
        items.append(f'<li><span class="dashed"></span>stops at {target:g}</li>')
    return items


def _color(number: int) -> str:
    return COLORS[number % len(COLORS)]


def _number(value: float) -> str:
    """Without the last digits that a multiple of a step has too many."""
    return f"{round(value, 10):,.10g}"
