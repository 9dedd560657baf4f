"""Watch: writes down what Ray Tune tells of the trials of a search, as it happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ray import tune
from ray.tune.experiment import Trial

from rlcore_tune.records import Report, Status, TrialLog, finite
from rlcore_tune.trial_actor import VALUE


class Watch(tune.Callback):
    """A callback of Tune. ``said`` is given a line for each event; ``metric`` is what values are called in it."""

    def __init__(self, log: TrialLog, said: Callable[[str], None], metric: str) -> None:
        self._log = log
        self._said = said
        self._metric = metric

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        index, value = int(trial.trial_id), result[VALUE]
        if result["failure"] is not None:
            return
        report = Report(result["env_steps"], finite(value), result["settings"])
        copied = result["copied_from"], result["copied_at"]
        # A trial that goes on in another process tells it again.
        if copied not in [(known.copied_from, known.copied_at) for known in self._log.trials[index].copies()]:
            report = replace(report, copied_from=copied[0], copied_at=copied[1])
        self._log.reported(index, report)
        whom = f"  from trial {report.copied_from}" if report.copied_from is not None else ""
        self._said(f"trial {index}  env_steps {report.env_steps}  {self._metric} {shown_value(value)}{whom}")

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        index, last = int(trial.trial_id), trial.last_result
        if last.get("failure") is not None:
            self._over(index, Status.FAILED, last["failure"])
        elif last.get("reason") is not None:
            self._over(index, Status.FINISHED, last["reason"])
        else:
            self._over(index, Status.STOPPED, None)

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        index = int(trial.trial_id)
        self._log.lost(index, _reason(trial))
        self._said(f"trial {index} was lost and is replaced: {_reason(trial)}")

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._over(int(trial.trial_id), Status.FAILED, _reason(trial))

    def _over(self, index: int, status: Status, reason: str | None) -> None:
        self._log.over(index, status, reason)
        self._said(f"trial {index} {status}" + (f": {reason}" if reason else ""))


def shown_value(value: float | None) -> str:
    """``"-182.4"``; ``"-"`` where there is none that is finite."""
    return "-" if finite(value) is None else f"{value:.4g}"


def _reason(trial: Trial) -> str:
    error = trial.get_pickled_error() or trial.get_error()
    return " ".join(f"{type(error).__name__}: {error}".split())[:300] if error is not None else "its process died"
