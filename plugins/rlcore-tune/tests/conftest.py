"""A search of a toy algorithm: a linear policy on CartPole, of some hundred steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from rlcore import cli

PROGRAM = "import sys; from rlcore.cli import main; main(sys.argv[1:])"

#: Seconds that a process may take for what it is waited for here; only a failing test waits as long.
PATIENCE = 240.0


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

    def events(self, folder: str) -> Events:
        """What is written down of a search so far."""
        return events(self.cwd / folder)

    def wait_for(self, what: Callable[[], bool], process: subprocess.Popen[str]) -> None:
        """Until ``what()`` is true, while the process runs."""
        deadline = time.monotonic() + PATIENCE
        while not what():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "the search makes no progress"
            time.sleep(0.05)

    def finish(self, process: subprocess.Popen[str]) -> tuple[str, str]:
        """What a process that ends has printed, to stdout and stderr."""
        return process.communicate(timeout=PATIENCE)


class Events(list[dict[str, Any]]):
    """What is written down of a search."""

    def of(self, trial: int, event: str = "report") -> list[dict[str, Any]]:
        """Of one trial, those of one kind."""
        return [each for each in self if each["trial"] == trial and each["event"] == event]


def events(folder: Path) -> Events:
    """The events of the search in ``folder``; none, where it has not begun."""
    path = folder / "trials.jsonl"
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return Events(json.loads(line) for line in lines)


@pytest.fixture
def tune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tune:
    monkeypatch.chdir(tmp_path)
    return Tune(tmp_path)


@pytest.fixture
def written() -> Callable[[Path], Events]:
    return events
