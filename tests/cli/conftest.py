"""Running the command in this process or in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rlcore import cli

PROGRAM = "import sys; from rlcore.cli import main; main(sys.argv[1:])"

#: A training of under a second: a linear policy, and short fragments so that episodes are cut in half.
SMALL = (
    *("pg", "--env", "CartPole-v1", "--framework", "numpy", "--seed", "1"),
    *("--set", "evaluators.fragment=40", "--set", "evaluators.envs=2", "--set", "filter=mean_std"),
)


class Rlcore:
    """The command with the folder ``cwd`` as the current one."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd

    def __call__(self, *arguments: object) -> Result:
        """Runs it here."""
        return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])

    def result(self, *arguments: object) -> dict[str, Any]:
        """The JSON object that it prints on stdout, and nothing else."""
        done = self(*arguments)
        assert done.exit_code == 0, done.stderr
        parsed: dict[str, Any] = json.loads(done.stdout)
        return parsed

    def error(self, *arguments: object) -> str:
        """What it says on stderr where it refuses: a few lines, exit code 2, nothing on stdout."""
        done = self(*arguments)
        assert (done.exit_code, done.stdout) == (2, ""), done.output
        assert done.stderr.startswith("error: ")
        return done.stderr.removeprefix("error: ").rstrip("\n")

    def start(self, *arguments: object, **environment: str) -> subprocess.Popen[str]:
        """Starts it in a process of its own, in a session of its own."""
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *map(str, arguments)],
            cwd=self.cwd,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


@pytest.fixture
def rlcore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rlcore:
    monkeypatch.chdir(tmp_path)
    return Rlcore(tmp_path)


@pytest.fixture
def small() -> tuple[str, ...]:
    return SMALL
