"""From the command line to a policy that is evaluated, resumed, and acts without a framework."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rlcore import cli

pytest.importorskip("rlcore_torch")
pytest.importorskip("rlcore_gym")

SMALL = {
    "mpc": (
        *("--set", "policy.planner.population=6", "--set", "policy.planner.elites=2", "--set", "policy.members=2"),
        *("--set", "policy.planner.horizon=3", "--set", "optimizer.minibatch_size=8", "--set", "optimizer.rounds=2"),
        *("--set", "optimizer.learnt_per_sampled=1", "--set", "model.hidden=[8]"),
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
def test_train_evaluate_and_resume(algorithm: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train = ("train", algorithm, "--env", "Pendulum-v1", "--seed", 1, "--out", out)
    row = run(*train, "--stop", "env_steps=80", *SMALL[algorithm])
    assert row["env_steps"] >= 80 and row["status"] == "stopped" and "dynamics_loss" in row
    result = run("evaluate", out, "--episodes", 2)
    assert result["episodes"] == 2 and result["episode_return_mean"] < 0.0
    assert run("resume", out, "--stop", "env_steps=160")["env_steps"] >= 160


def test_a_saved_planner_acts_without_a_framework(tmp_path: Path) -> None:
    out = tmp_path / "run"
    run("train", "mpc", "--env", "Pendulum-v1", "--out", out, "--stop", "env_steps=40", *SMALL["mpc"])
    program = f"""
import sys, numpy, rlcore
policy = rlcore.load_policy({str(out)!r})
action = policy.act(numpy.array([1.0, 0.0, 0.0], numpy.float32))
assert action.shape == (1,) and abs(action[0]) <= 2.0
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_wrong_settings_are_one_line() -> None:
    arguments = ["train", "mpc", "--env", "Pendulum-v1", "--set", "policy.planner.elites=999"]
    done = CliRunner().invoke(cli.main, arguments)
    assert done.exit_code == 2 and done.stdout == ""
    assert "elites: 999 of 32 candidates" in done.stderr
