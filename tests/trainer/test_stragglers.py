"""Runs that do not wait for their slowest evaluator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.runs import linear
from support.workers import replicas

from rlcore.errors import ConfigError
from rlcore.trainer import Trainer
from rlcore.tree import flatten

pytest.importorskip("rlcore_sync")
pytest.importorskip("rlcore_gym")

ROWS = 3 * 25
ROUNDS = 9


def run(optimizer: str, **evaluators: Any) -> dict[str, Any]:
    settings = {"count": 3, "sample_fraction": 0.6, **evaluators}
    return linear(
        {
            "optimizer.name": optimizer,
            "runtime": "support.faulty:SlowRuntime",
            "filter": "mean_std",
            **{f"evaluators.{key}": value for key, value in settings.items()},
        }
    )


def assert_replicas_are_equal(trainer: Trainer) -> None:
    (optimizer,) = trainer.optimizers
    expected, arrays = flatten(optimizer.graph_states()["default"])
    for evaluator in replicas(trainer.evaluators):
        document, own = flatten(evaluator.graph("default").get_state())
        assert document == expected
        for name, array in arrays.items():
            np.testing.assert_array_equal(own[name], array)


@pytest.mark.parametrize("optimizer", ["multi_gpu", "allreduce"])
def test_optimizers_go_on_without_the_slowest_and_learn_from_it_later(optimizer: str, tmp_path: Path) -> None:
    with Trainer(run(optimizer), out=tmp_path / "run") as trainer:
        rows = [trainer.step() for _ in range(ROUNDS)]
        env_steps = np.diff([0, *(row["env_steps"] for row in rows)]).tolist()
        # With the sample of the slowest, of 3.5 seconds, in every fourth round.
        assert env_steps == [2 * ROWS, 2 * ROWS, 2 * ROWS, 3 * ROWS] * 2 + [2 * ROWS]
        assert [row["learnt_rows"] for row in rows] == [row["env_steps"] for row in rows]
        assert rows[-1]["dropped_rows"] == 0
        assert [row["late_rows"] for row in rows] == [0, 0, 0, ROWS, 0, 0, 0, ROWS, 0]
        assert [row["late_staleness_mean"] for row in rows if row["late_rows"]] == [3.0, 3.0]
        assert sum(row["stragglers_left_out"] for row in rows) == 7
        assert trainer._parts.runtime.now() == ROUNDS
        if optimizer == "allreduce":
            assert_replicas_are_equal(trainer)
    # Waiting for it, as many rounds take 31.5 seconds.
    with Trainer(run(optimizer, sample_fraction=1.0)) as trainer:
        waiting = [trainer.step() for _ in range(ROUNDS)]
        assert trainer._parts.runtime.now() == ROUNDS * 3.5
        assert "late_rows" not in waiting[-1]


@pytest.mark.parametrize("optimizer", ["multi_gpu", "allreduce"])
def test_a_run_that_is_resumed_takes_samples_in_flight_again(optimizer: str, tmp_path: Path) -> None:
    with Trainer(run(optimizer)) as trainer:
        for _ in range(5):
            trainer.step()
        trainer.save(tmp_path / "saved")
    overrides = {"evaluators.sample_fraction": 1.0}
    with Trainer.restore(tmp_path / "saved", overrides=overrides, trust=True) as trainer:
        row = trainer.step()
        assert row["env_steps"] == 11 * ROWS + 3 * ROWS == row["learnt_rows"]
        assert trainer.restarts == {}
        if optimizer == "allreduce":
            assert_replicas_are_equal(trainer)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sample_fraction": 0.0}, "evaluators.sample_fraction"),
        ({"sample_fraction": 1.5}, "evaluators.sample_fraction"),
        ({"sample_timeout_s": 0.0}, "evaluators.sample_timeout_s"),
        ({"max_late_rounds": 0}, "evaluators.max_late_rounds"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Trainer(run("multi_gpu", **settings))
