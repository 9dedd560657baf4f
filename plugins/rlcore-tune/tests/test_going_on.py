"""Searches that are killed, lose a process or are interrupted, and go on: nothing that is over is run again."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlcore.checkpoint import load_manifest
from rlcore.results import RunFolder

pytest.importorskip("ray.tune")
pytest.importorskip("rlcore_sync")
pytest.importorskip("rlcore_gym")

# A Ray of its own for each, which goes down with it; two cores are enough for one at a time.
pytestmark = pytest.mark.xdist_group("ray")

Tune = Any
Written = Callable[[Path], Any]


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def rows(trial: int) -> bytes:
    """What a run has written of its iterations, in the folder of the test."""
    return Path(f"found/trials/{trial:03d}/progress.jsonl").read_bytes()


def saved(trial: int) -> tuple[int, float]:
    """Environment steps at the last checkpoint of a trial, and its learning rate."""
    latest = RunFolder.open(f"found/trials/{trial:03d}").checkpoints().latest()
    assert latest is not None
    manifest = load_manifest(latest)
    return manifest["env_steps"], manifest["config"]["policy"]["learning_rate"]


def resumed(tune: Tune, before: list[dict[str, Any]], over: list[int]) -> tuple[dict[str, Any], Any]:
    """Goes on, and checks that nothing happens to the trials that are over. The result, and the new events."""
    written_of = {trial: rows(trial) for trial in over}
    done = tune("found", "--trust")
    assert done.exit_code == 0, done.stderr
    after = tune.events("found")
    assert after[: len(before)] == before
    new = type(after)(after[len(before) :])
    assert not [event for event in new if event["trial"] in over]
    assert {trial: rows(trial) for trial in over} == written_of
    result: dict[str, Any] = json.loads(done.stdout)
    return result, new


def test_killed_and_resumed_runs_no_finished_trial_again(tune: Tune) -> None:
    # One trial at a time, so that the first is over when the second is in its middle.
    config = {"framework": "numpy", "evaluators": {"envs": 2, "fragment": 50}, "stop": {"env_steps": 1500}}
    process = tune.start(tune.write(config=config, resources={"cpus": 1}), "--out", "found")
    tune.wait_for(lambda: len(tune.events("found").of(1)) >= 2, process)
    kill(process)
    before = tune.events("found")
    assert [each["status"] for each in before.of(0, "over")] == ["finished"] and not before.of(1, "over")
    kept, _ = saved(1)

    result, new = resumed(tune, before, over=[0])
    assert result["statuses"] == {"finished": 2}
    # The other goes on from its last checkpoint, not from the beginning.
    assert new.of(1)[0]["env_steps"] > kept >= 100
    iterations = [row["iteration"] for row in RunFolder.open("found/trials/001").rows()]
    assert iterations == list(range(1, 16))


# -- killed when the first trial is over


RATE = "policy.learning_rate"

WAITING = """
import json, pathlib, time
from gymnasium.envs.classic_control import CartPoleEnv

class Waiting(CartPoleEnv):
    \"\"\"Stands still from when a trial of the search is over, with such a status, until somebody lets it go on; with
    the status "copied", from when one has taken over from another.\"\"\"

    def __init__(self, render_mode=None, folder="", status=""):
        super().__init__()
        self.folder, self.status, self.done = pathlib.Path(folder), status, 0

    def step(self, action):
        if not self.done % 25:
            while self.is_held():
                time.sleep(0.05)
        self.done += 1
        return super().step(action)

    def is_held(self):
        events = self.folder / "found/trials.jsonl"
        if (self.folder / "go_on").exists() or not events.exists():
            return False
        if self.status == "copied":
            return any(self.folder.glob("found/trials/*-copied.json"))
        lines = events.read_bytes().split(b"\\n")[:-1]
        return any(json.loads(line).get("status") == self.status for line in lines)
"""


def start_waiting(tune: Tune, status: str, **changes: Any) -> subprocess.Popen[str]:
    """A search, one trial at a time, that stands still as soon as a trial of it is over with such a ``status``."""
    (tune.cwd / "waiting_search.py").write_text(WAITING)
    config = {
        "framework": "numpy",
        "env_settings": {"folder": str(tune.cwd), "status": status},
        "evaluators": {"envs": 2, "fragment": 50},
        "stop": {"env_steps": 300},
    }
    search = tune.write(env="waiting_search:Waiting", config=config, resources={"cpus": 1}, **changes)
    started: subprocess.Popen[str] = tune.start(search, "--out", "found")
    return started


def test_a_population_that_is_killed_goes_on(tune: Tune) -> None:
    scheduler = {"name": "pbt", "every_env_steps": 100, "resample_probability": 0.0, "factors": [0.5, 2.0]}
    process = start_waiting(tune, "finished", scheduler=scheduler, trials=3)
    tune.wait_for(lambda: any(event["event"] == "over" for event in tune.events("found")), process)
    kill(process)
    before = tune.events("found")
    (over,) = [event["trial"] for event in before if event["event"] == "over"]
    others = sorted({0, 1, 2} - {over})
    # After the first round somebody has taken over from another.
    assert 100 in [event["copied_at"] for event in before if event.get("copied_from") is not None]
    kept = {trial: saved(trial) for trial in others}
    assert all(env_steps >= 200 for env_steps, _ in kept.values())

    (tune.cwd / "go_on").touch()
    result, new = resumed(tune, before, over=[over])
    assert result["statuses"] == {"finished": 3}
    for trial in others:
        # With the settings that it had come to, which need not be those that were drawn.
        assert [event["env_steps"] for event in new.of(trial)] == [300]
        assert new.of(trial)[0]["settings"] == {RATE: kept[trial][1]}
    last = [tune.events("found").of(trial)[-1]["value"] for trial in range(3)]
    assert result["best_value"] == max(last)


def test_a_population_that_is_killed_knows_who_took_over_from_whom(tune: Tune) -> None:
    scheduler = {"name": "pbt", "every_env_steps": 100, "resample_probability": 0.0, "factors": [0.5, 2.0]}
    process = start_waiting(tune, "copied", scheduler=scheduler, trials=2)
    tune.wait_for(lambda: any(tune.cwd.glob("found/trials/*-copied.json")), process)
    (note,) = tune.cwd.glob("found/trials/*-copied.json")
    copied = int(note.name[:3])
    # It stands still in the environment, with a checkpoint of what it has taken over, and has not reported it.
    tune.wait_for(lambda: saved(copied)[1] != tune.events("found").of(copied)[0]["settings"][RATE], process)
    kill(process)
    before = tune.events("found")
    assert not [event for event in before if event.get("copied_from") is not None]

    (tune.cwd / "go_on").touch()
    _, new = resumed(tune, before, over=[])
    told = [(event["copied_from"], event["copied_at"]) for event in new.of(copied)]
    assert told[0] == (1 - copied, 100) and told[0] not in told[1:]


def test_a_hyperband_that_is_killed_goes_on(tune: Tune) -> None:
    scheduler = {"name": "hyperband", "min_env_steps": 100, "max_env_steps": 300}
    process = start_waiting(tune, "stopped early", scheduler=scheduler, trials=5)
    tune.wait_for(lambda: any(event.get("status") == "stopped early" for event in tune.events("found")), process)
    kill(process)
    before = tune.events("found")
    over = [event["trial"] for event in before if event["event"] == "over"]
    # A bracket of two for all of the steps, and one of three, of which a third goes on.
    assert {0, 1} <= set(over) and len(over) < 5
    (tune.cwd / "go_on").touch()
    result, _ = resumed(tune, before, over)
    assert result["statuses"] == {"finished": 3, "stopped early": 2}
    steps = {trial: tune.events("found").of(trial)[-1]["env_steps"] for trial in range(5)}
    assert sorted(steps.values()) == [100, 100, 300, 300, 300]


# -- a process that dies


MORTAL = """
import os, pathlib, signal
from gymnasium.envs.classic_control import CartPoleEnv

class Mortal(CartPoleEnv):
    def __init__(self, render_mode=None, grave=""):
        super().__init__()
        self.grave, self.steps = pathlib.Path(grave), 0

    def step(self, action):
        self.steps += 1
        if self.steps > 130 and not self.grave.exists():
            self.grave.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)
"""


def test_a_trial_whose_process_dies_is_replaced(tune: Tune, tmp_path: Path, written: Written) -> None:
    (tmp_path / "mortal_search.py").write_text(MORTAL)
    config = {
        "framework": "numpy",
        "env_settings": {"grave": str(tmp_path / "grave")},
        "evaluators": {"envs": 1, "fragment": 50},
        "stop": {"env_steps": 300},
    }
    done = tune(tune.write(env="mortal_search:Mortal", config=config, trials=1), "--out", "found")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["statuses"] == {"finished": 1}
    found = written(tmp_path / "found")
    assert len(found.of(0, "lost")) == 1 and "trial 0 was lost and is replaced" in done.stderr
    assert "lost 1 time" in done.stderr
    assert [each["env_steps"] for each in found.of(0)] == [100, 200, 300]
    # Its folder has one course, from the checkpoint at its last report on.
    iterations = [row["iteration"] for row in RunFolder.open(tmp_path / "found/trials/000").rows()]
    assert iterations == list(range(1, 7))


# -- Ctrl-C


def test_interrupted_it_says_how_to_go_on(tune: Tune, tmp_path: Path) -> None:
    config = {"framework": "numpy", "evaluators": {"envs": 2, "fragment": 50}, "stop": {"env_steps": 100_000}}
    process = tune.start(tune.write(config=config, trials=1), "--out", "found")
    tune.wait_for(lambda: len(tune.events("found").of(0)) >= 1, process)
    process.send_signal(signal.SIGINT)
    out, err = tune.finish(process)
    assert process.returncode == 130, err
    assert err.endswith("stopped; go on with: rlcore tune found\n")
    assert json.loads(out)["status"] == "interrupted"
    assert not (tmp_path / "found/result.json").exists()
    assert RunFolder.open(tmp_path / "found/trials/000").checkpoints().latest() is not None
