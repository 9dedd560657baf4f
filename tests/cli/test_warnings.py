"""Warnings on the command line: one plain line each."""

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
