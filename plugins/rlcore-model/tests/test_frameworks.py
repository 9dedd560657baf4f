"""Planning with learnt models whatever framework learns them, and acting by them in the other one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rlcore import cli

for package in ("rlcore_torch", "rlcore_tf", "rlcore_gym"):
    pytest.importorskip(package)

SMALL = {
    "mpc": (
        *("--set", "policy.planner.population=6", "--set", "policy.planner.elites=2", "--set", "policy.members=2"),
        *("--set", "policy.planner.horizon=3", "--set", "optimizer.minibatch_size=8", "--set", "optimizer.rounds=2"),
        *("--set", "optimizer.learnt_per_sampled=1", "--set", "model.hidden=[8]"),
        *("--set", "optimizer.learning_starts=40", "--set", "policy.random_steps=40"),
    ),
    "mbpo": (
        *("--set", "optimizer.learning_starts=40", "--set", "optimizer.learnt_per_sampled=128"),
        *("--set", "optimizer.dynamics.learnt_per_sampled=8", "--set", "optimizer.rounds=2"),
    ),
}


def run(*arguments: object) -> dict[str, Any]:
    done = CliRunner().invoke(cli.main, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("algorithm", ["mpc", "mbpo"])
def test_they_are_trained_in_tensorflow_and_act_in_torch(algorithm: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train = ("train", algorithm, "--framework", "tf", "--env", "Pendulum-v1", "--seed", 1, "--out", out)
    row = run(*train, "--stop", "env_steps=80", *SMALL[algorithm])
    assert row["env_steps"] >= 80 and row["status"] == "stopped" and "dynamics_loss" in row
    results = [run("evaluate", out, "--episodes", 2, *more) for more in ((), ("--framework", "torch"))]
    assert results[0]["episode_return_mean"] == pytest.approx(results[1]["episode_return_mean"], rel=1e-3)
