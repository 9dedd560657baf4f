"""Values of a metric that are no numbers to compare by: infinity and NaN."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray.tune")

from rlcore_tune.records import TrialLog
from rlcore_tune.trial_actor import VALUE, TrialActor
from rlcore_tune.watch import Watch

INFINITE = [float("inf"), float("-inf"), float("nan")]


@pytest.mark.parametrize("value", INFINITE)
def test_a_value_that_is_not_finite_is_written_down_as_none(value: float, tmp_path: Path) -> None:
    said: list[str] = []
    log = TrialLog(tmp_path / "log", [{"x": 1}])
    result = {VALUE: value, "env_steps": 10, "settings": {"x": 1}, "copied_from": None, "copied_at": None}
    trial: Any = SimpleNamespace(trial_id="00000")
    Watch(log, said.append, "loss").on_trial_result(1, [trial], trial, {**result, "failure": None})
    assert [report.value for report in TrialLog(tmp_path / "log", [{"x": 1}]).trials[0].reports] == [None]
    assert said == ["trial 0  env_steps 10  loss -"]


class FakeTrainer:
    """Ten environment steps an iteration, with the ``values`` of the metric ``loss`` in turn, and then the end."""

    def __init__(self, values: Sequence[float | None]) -> None:
        self._left = list(values)
        self.counters = SimpleNamespace(env_steps=0)

    def stop_reached(self) -> str | None:
        return None if self._left else "env_steps"

    def step(self) -> dict[str, Any]:
        self.counters.env_steps += 10
        value = self._left.pop(0)
        return {} if value is None else {"loss": value}


@pytest.mark.parametrize("bad", INFINITE)
def test_a_trial_reports_the_last_finite_value(bad: float) -> None:
    actor: Any = SimpleNamespace(_plan=SimpleNamespace(metric="loss", report_env_steps=20), _value=None)
    trainer: Any = FakeTrainer([bad, bad, 3, bad, None, bad])
    # No report before there is a value; then one every 20 steps.
    for env_steps, reason in ((30, None), (40, None), (60, "env_steps")):
        assert TrialActor._train(actor, trainer) == reason
        assert (trainer.counters.env_steps, actor._value) == (env_steps, 3.0)
