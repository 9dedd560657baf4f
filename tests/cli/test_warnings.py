"""What code of others says or does on the command line: warnings are plain lines, and no end comes without a word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ENV = """
import warnings
import gymnasium, numpy as np

class Noisy(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        gymnasium.logger.warn("the %s is old", "model")
        warnings.warn("read\\nthe manual", UserWarning)
        np.float32(1e38) * np.float32(1e38)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 1.0, True, False, {}
"""


@pytest.fixture
def noisy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "noisy_env.py").write_text(ENV)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "noisy_env:Noisy"


def test_warnings_of_an_environment_are_plain_lines(rlcore, small, noisy):
    done = rlcore("train", *small, "--env", noisy, "--stop", "iteration=1", "--out", "run")
    assert done.exit_code == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if "warn" in line.lower()]
    assert said[:2] == ["warning: the model is old", "warning: read the manual"]
    assert re.fullmatch(r"warning: overflow encountered in .*multiply \(RuntimeWarning, .*noisy_env.py:13\)", said[2])
    assert len(said) == 3 and "\x1b" not in done.stderr


LEAVING = """
import sys
from rlcore.testing.environments import Count

class Leaving(Count):
    def poll(self, timeout):
        sys.exit(3)

class Interrupted(Count):
    def poll(self, timeout):
        raise KeyboardInterrupt
"""


def test_a_run_that_is_ended_from_within_says_so(rlcore, small, tmp_path, monkeypatch):
    (tmp_path / "leaving_env.py").write_text(LEAVING)
    monkeypatch.syspath_prepend(str(tmp_path))
    done = rlcore("train", *small, "--env", "leaving_env:Leaving", "--stop", "iteration=1", "--out", "left")
    assert done.exit_code == 3
    assert f"the run was ended by sys.exit(3) in {tmp_path / 'leaving_env.py'}:7\n" in done.stderr
    done = rlcore("train", *small, "--env", "leaving_env:Interrupted", "--stop", "iteration=1", "--out", "stopped")
    assert done.exit_code == 130 and not (tmp_path / "stopped").exists()
    assert done.stderr.rstrip().splitlines()[-1] == "stopped before anything was learnt; nothing is left of the run"
