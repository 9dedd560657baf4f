"""A search of a toy algorithm: a linear policy on CartPole, of some hundred steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from rlcore import cli

PROGRAM = "import sys; from rlcore.cli import main; main(sys.argv[1:])"


class Tune:
    """``rlcore tune`` in the folder ``cwd``."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd

    def write(self, **changes: Any) -> str:
        """A YAML file with the toy search, and ``changes`` to its keys."""
        search = {
            "algorithm": "pg",
            "env": "CartPole-v1",
            "config": {"framework": "numpy", "evaluators": {"envs": 2, "fragment": 50}, "stop": {"env_steps": 300}},
            "space": {"policy.learning_rate": {"log_uniform": [1e-3, 1.0]}},
            "scheduler": {"name": "none", "every_env_steps": 100},
            "resources": {"cpus": 2},
            "trials": 2,
            "seed": 1,
        }
        (self.cwd / "search.yaml").write_text(yaml.safe_dump({**search, **changes}))
        return "search.yaml"

    def __call__(self, *arguments: object) -> Result:
        """Runs it in this process."""
        return CliRunner().invoke(cli.main, ["tune", *map(str, arguments)])

    def result(self, *arguments: object) -> dict[str, Any]:
        """The JSON object that it prints, and nothing else."""
        done = self(*arguments)
        assert done.exit_code == 0, done.stderr
        parsed: dict[str, Any] = json.loads(done.stdout)
        return parsed

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        """Starts it in a process and a session of its own."""
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "tune", *map(str, arguments)],
            cwd=self.cwd,
            env={**os.environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


def events(folder: Path) -> list[dict[str, Any]]:
    """What is written down of a search."""
    path = folder / "trials.jsonl"
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


@pytest.fixture
def tune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tune:
    monkeypatch.chdir(tmp_path)
    return Tune(tmp_path)


@pytest.fixture
def written() -> Callable[[Path], list[dict[str, Any]]]:
    return events
