"""Runs from the command line: training, evaluation, going on exactly, and Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rlcore import cli
from rlcore.graph_spec import RemarkWarning
from rlcore.trainer import Trainer

pytest.importorskip("rlcore_batched")

SMALL = (
    *("es", "--env", "batched:cartpole", "--framework", "numpy", "--seed", "1", "--no-env-settings"),
    *("--set", "optimizer.pairs=12", "--set", "optimizer.evaluations=4", "--set", "optimizer.noise_table=10000"),
    *("--set", "evaluators.envs=8", "--set", "filter=mean_std"),
)
PATIENCE = 120.0


def result(*arguments: object) -> dict[str, Any]:
    done = CliRunner().invoke(cli.main, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def test_a_run_goes_on_exactly_and_is_evaluated(tmp_path: Path) -> None:
    whole = result("train", *SMALL, "--stop", "iteration=4", "--out", tmp_path / "whole")
    half = result("train", *SMALL, "--stop", "iteration=2", "--out", tmp_path / "half")
    assert half["weights_sha256"] != whole["weights_sha256"]
    rest = result("resume", tmp_path / "half", "--stop", "iteration=4")
    assert rest["weights_sha256"] == whole["weights_sha256"]
    for key in ("env_steps", "episodes", "episode_return_mean", "return_mean"):
        assert rest[key] == whole[key]
    found = result("evaluate", tmp_path / "half", "--episodes", "10")
    assert found["episodes"] == 10 and found["episode_return_mean"] > 0


def test_another_number_of_evaluators_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    whole = result("train", *SMALL, "--stop", "iteration=4", "--out", tmp_path / "whole")
    result("train", *SMALL, "--stop", "iteration=2", "--out", tmp_path / "half")
    more = ("--runtime", "inline", "--evaluators", "3", "--set", "optimizer.fan_out=2")
    result("train", *SMALL, *more, "--stop", "iteration=2", "--out", tmp_path / "tree")
    rest = result("resume", tmp_path / "tree", "--stop", "iteration=4")
    assert rest["weights_sha256"] == whole["weights_sha256"]


def test_a_filter_of_rewards_is_remarked_on() -> None:
    config = {"algorithm": "es", "framework": "numpy", "env": "batched:cartpole", "reward_filter": "clip"}
    with pytest.warns(RemarkWarning, match="reward_filter has no effect"):
        Trainer({**config, "optimizer": {"noise_table": 10_000}}).close()


def test_ctrl_c_stops_with_a_checkpoint(tmp_path: Path) -> None:
    program = "import sys; from rlcore.cli import main; main(sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "train", *SMALL, "--out", str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + PATIENCE
    while not (tmp_path / "run" / "progress.jsonl").exists():
        assert time.monotonic() < deadline and process.poll() is None
        # Its rows are all that another process can see of it.
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and "Traceback" not in err
    assert json.loads(out)["status"] == "interrupted"
    ended = json.loads(out)["iteration"]
    assert result("resume", tmp_path / "run", "--stop", f"iteration={ended + 1}")["iteration"] == ended + 1


def test_it_learns_to_balance(tmp_path: Path) -> None:
    """In a few seconds: all that lies between the command line and a policy that has learnt something."""
    pytest.importorskip("rlcore_torch")
    run = ("es", "--env", "batched:cartpole", "--framework", "torch", "--seed", "1", "--out", tmp_path / "run")
    found = result("train", *run, "--stop", "episode_return_mean=150", "--stop", "env_steps=2000000")
    assert found["stop_reason"] == "episode_return_mean=150"
    assert result("evaluate", tmp_path / "run", "--episodes", "20")["episode_return_mean"] >= 150
