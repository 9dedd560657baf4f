"""Curves as a picture, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rlcore.errors import UserError
from rlcore.plotting.curves import NAMES, Curve, described, labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(curves: Sequence[Curve], key: str, over: str) -> Figure:
    """A figure of the curves. ``UserError`` where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UserError(
            f"drawing needs matplotlib, which cannot be imported ({error}): pip install 'rlcore[plot]'; a page needs "
            "nothing more: --out curves.html"
        ) from error
    figure = Figure(figsize=(8, 5), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    for number, (curve, label) in enumerate(zip(curves, labels(curves), strict=True)):
        _draw_curve(axes, curve, label, key, f"C{number % 10}")
    for target in sorted({curve.target for curve in curves if curve.target is not None}):
        axes.axhline(target, color="gray", linewidth=0.8, linestyle="--", label=f"stops at {target:g}")
    axes.set_xlabel(NAMES.get(over, over))
    axes.set_ylabel(NAMES.get(key, key))
    axes.grid(alpha=0.3)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    # Below, where it hides no curve.
    figure.legend(fontsize="small", loc="outside lower center")
    return figure


def _draw_curve(axes: Axes, curve: Curve, label: str, key: str, color: str) -> None:
    alone, spread = len(curve.lines) == 1, curve.spread()
    for line in curve.lines:
        axes.plot(*line, color=color, linewidth=1.6 if alone else 0.8, alpha=1.0 if alone else 0.3)
    if spread is not None:
        axes.plot(spread.x, spread.median, color=color, linewidth=1.8)
        axes.fill_between(spread.x, spread.lower, spread.upper, color=color, alpha=0.2, linewidth=0)
    axes.lines[-1].set_label(described(curve, label, key))
    points = np.concatenate([np.empty((0, 2)), *(np.stack(line, axis=1) for line in curve.evaluations)])
    if len(points):
        axes.scatter(points[:, 0], points[:, 1], color=color, s=22, marker="D", label=f"{label}: evaluation", zorder=3)
