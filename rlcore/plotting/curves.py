"""What is drawn: which runs belong together, and the middle and the spread of those that do."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import yaml
from numpy.typing import NDArray

from rlcore.errors import RunFolderError, UserError
from rlcore.lookup_errors import did_you_mean
from rlcore.results import Row, RunFolder

Floats = NDArray[np.float64]
#: ``(what it is drawn over, values)``, both ``[n]``.
Line = tuple[Floats, Floats]

#: The row keys that are drawn where nobody says otherwise, and the one whose values stand beside them as points.
RETURN, STEPS, EVALUATED = "episode_return_mean", "env_steps", "evaluation_return_mean"

#: What row keys are called on an axis; others are called as they are.
NAMES = {RETURN: "episode return", STEPS: "environment steps", "wall_s": "seconds"}

#: In these settings the runs of one curve may differ: they change when a run ends and what is looked at.
_NOT_OF_A_CURVE = ("seed", "stop", "checkpoints", "evaluation")
#: At how many places runs are compared.
_GRID = 200


class Spread(NamedTuple):
    """Of several runs at common places ``x``: their median, and the quartiles below and above it, all ``[n]``."""

    x: Floats
    median: Floats
    lower: Floats
    upper: Floats


@dataclass
class Curve:
    """Runs that differ in nothing but their seed.

    ``lines`` holds the values of each run, ``evaluations`` the mean of each of its evaluations, where returns are
    drawn; ``target`` is the value at which the runs were to stop.
    """

    settings: Mapping[str, Any]
    target: float | None
    lines: list[Line] = field(default_factory=list)
    evaluations: list[Line] = field(default_factory=list)

    def spread(self) -> Spread | None:
        """None for a single run, and where there is no place that all have come by."""
        return spread_of(self.lines)


def spread_of(lines: Sequence[Line], points: int = _GRID) -> Spread | None:
    """Median and quartiles of ``lines`` at ``points`` places, each line linear between its own points.

    They cover what every line has: a middle of those that happen to be left would jump where one ends.
    """
    if len(lines) < 2:
        return None
    first, last = max(x[0] for x, _ in lines), min(x[-1] for x, _ in lines)
    if first >= last:
        return None
    x = np.linspace(first, last, points)
    values = np.stack([np.interp(x, *line) for line in lines])
    lower, median, upper = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
    return Spread(x, median, lower, upper)


def read_curves(runs: Sequence[str | os.PathLike[str]], key: str = RETURN, over: str = STEPS) -> list[Curve]:
    """The values of the row key ``key`` over ``over`` in ``runs``, grouped by the runs' settings.

    ``RunFolderError`` for a folder that is no run or has no such value yet, ``UserError`` for a key that no row has.
    """
    curves: dict[str, Curve] = {}
    for path in runs:
        run = RunFolder.open(path)
        config = _config(run)
        settings = {name: value for name, value in config.items() if name not in _NOT_OF_A_CURVE}
        rows = run.rows()
        _check_keys(run, rows, (key, over))
        line = line_of(rows, key, over)
        if not len(line[0]):
            raise RunFolderError(f"there is nothing to draw of {run.path}: {_nothing(key)}")
        target = (config.get("stop") or {}).get(key)
        curve = curves.setdefault(json.dumps(settings, sort_keys=True, default=str), Curve(settings, target))
        curve.lines.append(line)
        if key == RETURN:
            curve.evaluations.append(line_of(rows, EVALUATED, over))
    return list(curves.values())


def line_of(rows: Sequence[Row], key: str, over: str) -> Line:
    """The points of rows that have a number for both, in the order of ``over``."""
    points = [(row[over], row[key]) for row in rows if _is_number(row.get(key)) and _is_number(row.get(over))]
    x, values = np.array(points, np.float64).reshape(-1, 2).T
    order = np.argsort(x, kind="stable")
    return x[order], values[order]


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


def described(curve: Curve, label: str, key: str) -> str:
    """The curve in a legend."""
    runs = len(curve.lines)
    if runs > 1:
        common = curve.spread() is not None
        return f"{label}: {f'median of {runs} runs, and quartiles' if common else f'{runs} runs, with no x in common'}"
    return f"{label}: {'training, last 100 episodes' if key == RETURN else key}"


def _nothing(key: str) -> str:
    return "no episode has finished yet" if key == RETURN else f"no row has a number for '{key}'"


def _check_keys(run: RunFolder, rows: Sequence[Row], keys: Sequence[str]) -> None:
    known = dict.fromkeys(name for row in rows for name in row)
    for key in keys:
        if known and key not in known:
            hint = did_you_mean(key, [name for name in known if any(_is_number(row.get(name)) for row in rows)])
            raise UserError(f"no row of {run.path} has the key '{key}'{hint}")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _config(run: RunFolder) -> dict[str, Any]:
    try:
        config = yaml.safe_load(run.config_yaml)
    except yaml.YAMLError as error:
        raise RunFolderError(f"{run.path}/config.yaml is no YAML: {error}") from error
    if not isinstance(config, dict):
        raise RunFolderError(f"{run.path}/config.yaml holds no settings")
    return config


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
