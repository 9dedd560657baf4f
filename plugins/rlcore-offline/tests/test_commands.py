"""The commands, as a user calls them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rlcore_offline import read_dataset

for package in ("rlcore_torch", "rlcore_gym"):
    pytest.importorskip(package)


PROGRAM = "import sys; from rlcore.cli import main; main(sys.argv[1:])"


def rlcore(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_from_a_run_to_a_policy_that_was_cloned_from_it(run: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    told = json.loads(rlcore("record", run, "--out", data, "--episodes", 12, "--seed", 3).stdout)
    dataset = read_dataset(data)
    assert told == {
        "episodes": 12,
        "rows": len(dataset.batch),
        "episode_return_mean": pytest.approx(dataset.returns().mean()),
    }
    settings = ["--set", f"optimizer.dataset={data}", "--set", "optimizer.updates=20", "--set", "filter=mean_std"]
    trained = rlcore("train", "bc", "--env", "CartPole-v1", *settings, "--stop", "updates=20", "--out", tmp_path / "bc")
    assert trained.returncode == 0, trained.stderr
    estimates = json.loads(rlcore("estimate", tmp_path / "bc", data).stdout)
    assert estimates["recorded"] > 0 and 1.0 <= estimates["effective_episodes"] <= 12.0
    evaluated = json.loads(rlcore("evaluate", tmp_path / "bc", "--episodes", 2).stdout)
    assert evaluated["episodes"] == 2


def test_the_policy_that_recorded_is_worth_what_it_got(run: Path, data: Path) -> None:
    found = json.loads(rlcore("estimate", run, data, "--gamma", 1.0).stdout)
    mean = read_dataset(data).returns().mean()
    for name in ("recorded", "importance", "weighted", "per_decision", "weighted_per_decision"):
        assert found[name] == pytest.approx(mean, rel=1e-3)
    assert found["effective_episodes"] == pytest.approx(20.0, rel=1e-3)


def test_observations_are_recorded_as_the_environment_gave_them(data: Path) -> None:
    """CartPole begins within 0.05 of rest; a filter would have scaled that."""
    batch = read_dataset(data).batch
    assert np.abs(batch["obs"][batch.cuts["start"]]).max() <= 0.05


def test_the_same_seed_records_the_same(run: Path, tmp_path: Path) -> None:
    for name in ("one", "other"):
        assert rlcore("record", run, "--out", tmp_path / name, "--episodes", 3).returncode == 0
    one, other = (read_dataset(tmp_path / name).batch for name in ("one", "other"))
    for column in one.rows:
        np.testing.assert_array_equal(one[column], other[column])


def test_errors_are_one_line(run: Path, data: Path, tmp_path: Path) -> None:
    for command, said in (
        (["record", run, "--out", data], "exists"),
        (["record", tmp_path / "none", "--out", tmp_path / "new"], "none"),
        (["estimate", run, tmp_path / "none"], "no dataset"),
    ):
        failed = rlcore(*command)
        assert failed.returncode == 2 and said in failed.stderr, failed.stderr
        assert "Traceback" not in failed.stderr


def test_likelihoods_are_needed_for_estimates(run: Path, tmp_path: Path) -> None:
    assert rlcore("record", run, "--out", tmp_path / "data", "--episodes", 2, "--deterministic").returncode == 0
    failed = rlcore("estimate", run, tmp_path / "data")
    assert failed.returncode == 2 and "--deterministic" in failed.stderr


def test_a_policy_that_cannot_say_how_likely_actions_are_is_refused(data: Path, tmp_path: Path) -> None:
    settings = ["--set", f"optimizer.dataset={data}", "--set", "optimizer.updates=2", "--set", "model.hidden=[8]"]
    out = tmp_path / "cql"
    trained = rlcore("train", "cql", "--env", "CartPole-v1", *settings, "--stop", "updates=2", "--out", out)
    assert trained.returncode == 0, trained.stderr
    failed = rlcore("estimate", out, data)
    assert failed.returncode == 2 and "cannot say how likely" in failed.stderr, failed.stderr
