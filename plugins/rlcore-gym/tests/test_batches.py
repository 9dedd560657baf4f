"""Batches are the same wherever the copies step; what is sampled, and trained on, when some of them are lost."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
from click.testing import CliRunner, Result

from rlcore import cli, restarts
from rlcore.batch import SampleBatch
from rlcore.errors import EnvError
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.sampling.collect import Episodes, Fragment
from rlcore.testing.environments import CountEnv
from rlcore.testing.linear import LinearPG

# Classes of this file cannot be imported elsewhere; those of a script or a notebook travel by value just as these.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

CARTPOLE: dict[str, Any] = {"max_episode_steps": 30, "sutton_barto_reward": True}
NATIVE: dict[str, Any] = {"vectorization": "native"}
PONG: dict[str, Any] = {"atari": {"noop_max": 0}, "frame_stack": 4, "time_limit": 25}


def sampled(env: Any, num_envs: int, settings: dict[str, Any], **keywords: Any) -> list[SampleBatch]:
    """Two batches."""
    keywords = {"collect": Fragment(40), "rng": 3} | keywords
    evaluator = PolicyEvaluator(env=env, env_settings=settings, graph=LinearPG, num_envs=num_envs, **keywords)
    try:
        batches = [evaluator.sample() for _ in range(2)]
    finally:
        evaluator.close()
    assert all(isinstance(batch, SampleBatch) for batch in batches)
    return batches  # type: ignore[return-value]


def assert_same(expected: list[SampleBatch], given: list[SampleBatch]) -> None:
    for mine, yours in zip(expected, given, strict=True):
        for part in ("rows", "cuts"):
            left, right = getattr(mine, part), getattr(yours, part)
            assert left.keys() == right.keys()
            for name, column in left.items():
                assert column.dtype == right[name].dtype, name
                np.testing.assert_array_equal(column, right[name], err_msg=name)


@pytest.mark.parametrize(
    "settings", [{"vectorization": "process", "workers": 2}, {"vectorization": "thread", "workers": 3}, NATIVE]
)
def test_cartpole(settings: dict[str, Any]) -> None:
    expected = sampled("CartPole-v1", 5, CARTPOLE)
    assert expected[0]["truncated"].any() and expected[0]["terminated"].any()
    assert_same(expected, sampled("CartPole-v1", 5, {**CARTPOLE, **settings}))


@pytest.mark.parametrize("kind", ["process", "thread", "native"])
def test_pong(ale: None, kind: str) -> None:
    expected = sampled("ALE/Pong-v5", 3, PONG)
    assert expected[0]["obs"].shape[1:] == (4, 84, 84) and expected[0]["truncated"].any()
    assert_same(expected, sampled("ALE/Pong-v5", 3, {**PONG, "vectorization": kind, "workers": 2}))


class Faulty(CountEnv):
    """Ten steps. The copy that is the first to come to step 6 has a fault there, as often as ``times`` says."""

    def __init__(self, folder: str, fault: str = "raise", times: int = 1) -> None:
        super().__init__(10)
        self.path, self.fault, self.times = Path(folder) / "faults", fault, times

    def step(self, action: Any) -> Any:
        if self.t == 5 and self.strikes():
            match self.fault:
                case "raise":
                    raise ValueError("boom")
                case "hang":
                    time.sleep(3600)
                case "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)

    def strikes(self) -> bool:
        """Whether it is this one's turn; files that are made by one process only tell."""
        for number in range(self.times):
            try:
                self.path.with_suffix(f".{number}").touch(exist_ok=False)
            except FileExistsError:
                continue
            return True
        return False


@pytest.mark.parametrize("fault", ["raise", "hang", "kill"])
def test_B049_good_episodes_are_kept(fault: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One worker is lost in its first episode; what was sampled before stays, and the other copy does not notice."""
    settings = {"folder": str(tmp_path), "fault": fault, "vectorization": "process", "workers": 2}
    first, _ = sampled(Faulty, 2, {**settings, "step_timeout": 1.0, "on_failure": "restart"}, collect=Fragment(20))
    assert "step 6: " in caplog.text
    lengths = {tuple(first.cuts["length"][first.cuts["slot"] == slot].tolist()) for slot in (0, 1)}
    # Five good steps, the sixth is lost, ten of the next episode, four of the one after it.
    assert lengths == {(10, 10), (5, 10, 4)}
    assert len(first) == 39
    lost = first.cuts["length"] == 5
    assert first.cuts["last_obs"][lost].ravel().tolist() == [15] and first.cuts["bootstrap"][lost].all()


def test_B049_whole_episodes_are_whole(tmp_path: Path) -> None:
    settings = {"folder": str(tmp_path), "fault": "kill", "vectorization": "process", "workers": 2}
    for batch in sampled(Faulty, 2, {**settings, "on_failure": "restart"}, collect=Episodes(4)):
        assert batch.cuts["length"].tolist() == [10] * 4
        assert not batch.cuts["bootstrap"].any()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("raise", r"(?s)slot \d, step 6: step\(\) raised ValueError: boom\n  File .*\(in worker \d, process \d+\)"),
        ("hang", r"slot \d, step 6: worker \d, process \d+ \(slot \d\) did not come back for 1(.\d+)? s"),
        ("kill", r"slot \d, step 6: worker \d, process \d+ \(slot \d\) was killed by SIGKILL"),
    ],
)
def test_B046_the_run_ends_cleanly_where_that_is_wanted(fault: str, said: str, tmp_path: Path) -> None:
    settings = {"folder": str(tmp_path), "fault": fault, "vectorization": "process", "step_timeout": 1.0}
    with pytest.raises(EnvError, match=said):
        sampled(Faulty, 2, {**settings, "workers": 2})


# -- rlcore train


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Trains on :class:`Faulty`, found by its import path here and in workers."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setattr(restarts, "PAUSE", 0.01)
    (tmp_path / "faults").mkdir()

    def run(**settings: Any) -> Result:
        own = {"folder": f"{tmp_path}/faults", "vectorization": "process", "workers": 2, "step_timeout": 1.0} | settings
        chosen = {"evaluators.envs": 4, "evaluators.fragment": 25}
        chosen |= {f"env_settings.{key}": value for key, value in own.items()}
        words = ["train", "pg", "--env", f"{Path(__file__).stem}:Faulty", "--framework", "numpy", "--seed", "1"]
        words += ["--stop", "iteration=3", "--out", str(tmp_path / "run")]
        for key, value in chosen.items():
            words += ["--set", f"{key}={value}"]
        return CliRunner().invoke(cli.main, words)

    return run


@pytest.mark.parametrize("fault", ["raise", "hang", "kill"])
def test_B049_a_training_goes_on(
    fault: str, train: Callable[..., Result], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    done = train(fault=fault, on_failure="restart")
    assert done.exit_code == 0, done.stderr
    assert "step 6: " in caplog.text and " anew" in caplog.text
    rows = [json.loads(line) for line in (tmp_path / "run" / "progress.jsonl").read_text().splitlines()]
    # An exception takes one copy's step with it, a worker that is gone those of both its copies.
    lost = 1 if fault == "raise" else 2
    assert [row["lost_steps"] for row in rows] == [lost] * 3
    assert [row["env_steps"] for row in rows] == [100, 200, 300]
    assert [row["episode_return_mean"] for row in rows] == [10.0] * 3
    assert rows[-1]["episodes"] >= 4 * 7 - lost


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"fault": "raise"}, "step() raised ValueError: boom\n  File "),
        ({"fault": "kill"}, "was killed by SIGKILL"),
        ({"fault": "kill", "on_failure": "restart", "times": 99}, "began anew 3 times and failed again"),
    ],
)
def test_B047_a_training_ends_with_two_or_a_few_lines(
    settings: dict[str, Any], said: str, train: Callable[..., Result]
) -> None:
    done = train(**settings)
    assert (done.exit_code, done.stdout) == (2, "")
    error = done.stderr[done.stderr.rindex("error: ") :]
    assert error.startswith(f"error: {Path(__file__).stem}:Faulty, slot ") and ", step 6: " in error
    assert said in error
    assert "Traceback" not in done.stderr
