"""Whole runs on a simulated cluster: as inline where nothing fails, to their end where something does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.runs import linear, without_times

from rlcore.errors import ConfigError
from rlcore.hooks import hookimpl
from rlcore.resolve import resolve
from rlcore.runtime.sim import Cost, FaultKind, SimConfig
from rlcore.runtime_choice import runtime_config
from rlcore.trainer import Trainer

pytest.importorskip("rlcore_sync")
pytest.importorskip("rlcore_gym")

OPTIMIZERS = ["multi_gpu", "allreduce"]


def run(runtime: Any, out: Path | None = None, **changes: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The result of a run and its rows."""
    config = linear({key.replace("__", "."): value for key, value in changes.items()})
    rows: list[dict[str, Any]] = []

    class Rows:
        @hookimpl
        def iteration(self, row: dict[str, Any]) -> None:
            rows.append(dict(row))

    trainer = Trainer({**config, "runtime": runtime}, hooks=[Rows()], out=out)
    return trainer.train(), rows


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_run_is_as_inline_and_takes_virtual_time(optimizer: str, count: int) -> None:
    changes = {"optimizer__name": optimizer, "evaluators__count": count}
    sim = {"name": "sim", "seed": 3, "costs": {"sample_counted": {"seconds": 60.0, "spread": 0.1}}}
    (expected, rows), (found, others) = run("inline", **changes), run(sim, **changes)
    assert [without_times(row) for row in rows] == [without_times(row) for row in others]
    assert found["weights_sha256"] == expected["weights_sha256"]
    assert all(40 < row["sample_s"] < 400 for row in others)
    # That time is not the machine's, which takes its own each time.
    assert run(sim, **changes) == (found, others)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_run_goes_on_through_faults_and_from_its_checkpoint(optimizer: str, tmp_path: Path) -> None:
    sim = {
        "name": "sim",
        "seed": 4,
        "rates": {"crash": 0.05, "answer": 0.05, "limit": 2},
        "plan": [{"worker": 1, "method": "receive", "call": 1, "fault": "hang"}],
        "max_seconds": 1e5,
    }
    changes = {"optimizer__name": optimizer, "evaluators__count": 3, "stop__iteration": 6}
    result, rows = run(sim, tmp_path / "run", **changes)
    assert result["status"] == "stopped" and [row["env_steps"] for row in rows] == [225 * k for k in range(1, 7)]
    assert any(row["wall_s"] > 300 for row in rows)
    again, others = run(sim, tmp_path / "again", **changes)
    assert (others, again["weights_sha256"]) == (rows, result["weights_sha256"])
    trainer = Trainer.restore(tmp_path / "run", overrides={"stop.iteration": 8})
    assert trainer.train()["env_steps"] == 225 * 8


def test_settings_of_a_simulation_are_checked() -> None:
    given = {
        "seed": 5,
        "costs": {"sample_counted": 2, "start": {"seconds": 1.0, "spread": 0.5}},
        "latency": 0.001,
        "slow_workers": [{"worker": 1, "factor": 2.0}],
        "plan": [{"worker": 0, "method": "receive", "fault": "hang"}],
        "bytes_per_s": None,
    }
    settings = resolve({**linear(), "runtime": {"name": "sim", **given}}).config.runtime
    config = runtime_config(settings)
    assert isinstance(config, SimConfig)
    assert config.costs == {"sample_counted": Cost(seconds=2.0), "start": Cost(seconds=1.0, spread=0.5)}
    assert (config.latency, config.plan[0].fault, config.bytes_per_s) == (Cost(seconds=0.001), FaultKind.HANG, None)
    for wrong, message in [
        ({"sed": 1}, "runtime.sed: unknown key, did you mean 'seed'?"),
        ({"rates": {"crash": 1.5}}, "runtime.rates.crash: should be less than or equal to 1, not 1.5"),
        ({"latency": "fast"}, "runtime.latency: "),
        ({"costs": {"start": True}}, "runtime.costs.start: "),
        ({"plan": [{"worker": 0, "method": "receive", "fault": "explode"}]}, "runtime.plan.0.fault: should be 'crash'"),
    ]:
        with pytest.raises(ConfigError) as caught:
            resolve({**linear(), "runtime": {"name": "sim", **wrong}})
        assert str(caught.value).startswith(message) and "\n" not in str(caught.value)
