"""Learning curves of one or many runs as a picture: return over environment steps."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml
from numpy.typing import NDArray

from rlcore.errors import RunFolderError, UserError
from rlcore.results import RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
#: ``(environment steps, returns)``, both ``[n]``.
Line = tuple[Floats, Floats]

#: In these settings the runs of one curve may differ: they change when a run ends and what is looked at.
_NOT_OF_A_CURVE = ("seed", "stop", "checkpoints", "evaluation")
_GRID = 200


@dataclass
class Curve:
    """Runs that differ in nothing but their seed.

    ``training`` holds per run the mean over its last 100 finished episodes, as recorded; ``evaluation`` the mean of
    each evaluation.
    """

    settings: Mapping[str, Any]
    target: float | None
    training: list[Line] = field(default_factory=list)
    evaluation: list[Line] = field(default_factory=list)

    def mean_and_spread(self) -> tuple[Floats, Floats, Floats]:
        """``(steps, mean, standard deviation)`` of the training lines, each ``[200]``, linear between rows.

        They cover the steps that every run has: a mean over the runs that happen to be left would jump where one ends.
        """
        steps = np.linspace(
            max(line[0][0] for line in self.training), min(line[0][-1] for line in self.training), _GRID
        )
        returns = np.stack([np.interp(steps, *line) for line in self.training])
        return steps, returns.mean(axis=0), returns.std(axis=0)


def read_curves(runs: Sequence[str | os.PathLike[str]]) -> list[Curve]:
    """The runs, grouped by their settings. ``UserError`` for a folder that is no run or has no finished episode."""
    curves: dict[str, Curve] = {}
    for path in runs:
        run = RunFolder.open(path)
        config = _config(run)
        settings = {key: value for key, value in config.items() if key not in _NOT_OF_A_CURVE}
        rows = run.rows()
        training, evaluation = _line(rows, "episode_return_mean"), _line(rows, "evaluation_return_mean")
        if not len(training[0]):
            raise RunFolderError(f"there is nothing to draw of {run.path}: no episode has finished yet")
        target = (config.get("stop") or {}).get("episode_return_mean")
        curve = curves.setdefault(json.dumps(settings, sort_keys=True, default=str), Curve(settings, target))
        curve.training.append(training)
        curve.evaluation.append(evaluation)
    return list(curves.values())


def draw(curves: Sequence[Curve]) -> Figure:
    """A matplotlib figure of the curves. ``UserError`` where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UserError(
            f"drawing needs matplotlib, which cannot be imported ({error}): pip install 'rlcore[plot]'"
        ) from error
    figure = Figure(figsize=(8, 5), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    for number, (curve, label) in enumerate(zip(curves, labels(curves), strict=True)):
        _draw_curve(axes, curve, label, f"C{number % 10}")
    for target in sorted({curve.target for curve in curves if curve.target is not None}):
        axes.axhline(target, color="gray", linewidth=0.8, linestyle="--", label=f"stops at {target:g}")
    axes.set_xlabel("environment steps")
    axes.set_ylabel("episode return")
    axes.grid(alpha=0.3)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    # Below, where it hides no curve.
    figure.legend(fontsize="small", loc="outside lower center")
    return figure


def plot_runs(runs: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> Path:
    """Draws ``runs`` into the picture ``out`` (its ending names the format, PNG without one); returns its path."""
    figure = draw(read_curves(runs))
    out = Path(out)
    if not out.suffix:
        out = out.with_suffix(".png")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot write the picture {out}: {error}") from error
    return out


def labels(curves: Sequence[Curve]) -> list[str]:
    """What tells each curve from the others: algorithm, environment, and the settings in which they differ."""
    flat = [_flat(curve.settings) for curve in curves]
    shown = ("algorithm", "env")
    keys = dict.fromkeys(key for settings in flat for key in settings)
    differing = [key for key in keys if key not in shown and len({str(settings.get(key)) for settings in flat}) > 1]
    result = []
    for settings in flat:
        name = " ".join(str(settings[key]) for key in shown if key in settings)
        result.append(", ".join([name, *(f"{key}={settings.get(key)}" for key in differing[:3])]))
    return result


def _config(run: RunFolder) -> dict[str, Any]:
    try:
        config = yaml.safe_load(run.config_yaml)
    except yaml.YAMLError as error:
        raise RunFolderError(f"{run.path}/config.yaml is no YAML: {error}") from error
    if not isinstance(config, dict):
        raise RunFolderError(f"{run.path}/config.yaml holds no settings")
    return config


def _line(rows: Sequence[Mapping[str, Any]], key: str) -> Line:
    points = [(row["env_steps"], row[key]) for row in rows if row.get(key) is not None]
    steps, returns = np.array(points, np.float64).reshape(-1, 2).T
    return steps, returns


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def _draw_curve(axes: Axes, curve: Curve, label: str, color: str) -> None:
    runs = len(curve.training)
    alone = runs == 1
    for line in curve.training:
        axes.plot(*line, color=color, linewidth=1.6 if alone else 0.8, alpha=1.0 if alone else 0.3)
    if alone:
        axes.lines[-1].set_label(f"{label}: training, last 100 episodes")
    elif max(line[0][0] for line in curve.training) < min(line[0][-1] for line in curve.training):
        steps, mean, spread = curve.mean_and_spread()
        axes.plot(steps, mean, color=color, linewidth=1.8, label=f"{label}: mean of {runs} runs, one std around it")
        axes.fill_between(steps, mean - spread, mean + spread, color=color, alpha=0.2, linewidth=0)
    else:
        axes.lines[-1].set_label(f"{label}: {runs} runs, with no steps in common")
    points = np.concatenate([np.stack(line, axis=1) for line in curve.evaluation])
    if len(points):
        axes.scatter(points[:, 0], points[:, 1], color=color, s=22, marker="D", label=f"{label}: evaluation", zorder=3)
