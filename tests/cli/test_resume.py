"""``rlcore resume`` and ``evaluate``: going on exactly after a stop, a kill and Ctrl-C; acting; damaged checkpoints."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rlcore.checkpoint import load_manifest, load_tree, save_tree
from rlcore.results import RunFolder
from rlcore.trainer import Trainer

pytest.importorskip("rlcore_sync")
pytest.importorskip("rlcore_gym")

Rlcore = Any
PROGRAM = "import sys; from rlcore.cli import main; main(sys.argv[1:])"
#: Seconds that a process may take for what it is waited for here; only a failing test waits as long.
PATIENCE = 60.0


def wait_for_rows(run: Path, rows: int) -> None:
    """Until the run has that many rows."""
    deadline = time.monotonic() + PATIENCE
    progress = run / "progress.jsonl"
    while not progress.exists() or progress.read_bytes().count(b"\n") < rows:
        assert time.monotonic() < deadline, "the run makes no progress"
        time.sleep(0.02)


def test_six_iterations_are_three_and_three(rlcore: Rlcore, small: tuple[str, ...], tmp_path: Path) -> None:
    whole = rlcore.result("train", *small, "--stop", "iteration=6", "--out", "whole")
    half = rlcore.result("train", *small, "--stop", "iteration=3", "--out", "half")
    assert half["weights_sha256"] != whole["weights_sha256"]
    rest = rlcore.result("resume", "half", "--stop", "iteration=6")
    assert rest["weights_sha256"] == whole["weights_sha256"]
    assert (rest["run_folder"], rest["iteration"], rest["env_steps"]) == ("half", 6, 480)
    rows = [RunFolder.open(tmp_path / name).rows() for name in ("whole", "half")]
    assert [row["iteration"] for row in rows[1]] == [1, 2, 3, 4, 5, 6]
    for key in ("env_steps", "episodes", "episode_return_mean", "episode_length_mean"):
        assert [row[key] for row in rows[0]] == [row[key] for row in rows[1]]


def test_B088_killed_and_resumed_is_never_stopped(rlcore: Rlcore, small: tuple[str, ...], tmp_path: Path) -> None:
    whole = rlcore.result("train", *small, "--stop", "iteration=200", "--out", "whole")
    process = rlcore.start("train", *small, "--stop", "iteration=200", "--out", "half", PYTHONHASHSEED="123")
    wait_for_rows(tmp_path / "half", 15)
    process.kill()
    process.communicate()
    run = RunFolder.open(tmp_path / "half")
    assert run.result() is None
    assert run.checkpoints().latest() is not None
    rest = rlcore.result("resume", "half")
    assert rest["weights_sha256"] == whole["weights_sha256"]
    assert [row["iteration"] for row in run.rows()] == list(range(1, 201))


def test_ctrl_c_stops_with_a_checkpoint_that_resumes(rlcore: Rlcore, small: tuple[str, ...], tmp_path: Path) -> None:
    process = rlcore.start("train", *small, "--out", "run", "--checkpoint-every", "100000")
    wait_for_rows(tmp_path / "run", 5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "no stop key is given: it trains until Ctrl-C" in err
    assert "stopping at the next safe point, with a checkpoint" in err
    assert "go on with: rlcore resume run" in err
    assert "Traceback" not in err
    result = json.loads(out)
    assert result["status"] == "interrupted"
    run = RunFolder.open(tmp_path / "run")
    assert run.checkpoints().iterations() == [result["iteration"]]
    rest = rlcore.result("resume", "run", "--stop", f"iteration={result['iteration'] + 2}")
    assert [row["iteration"] for row in run.rows()] == list(range(1, rest["iteration"] + 1))


def test_a_second_ctrl_c_stops_at_once(rlcore: Rlcore, small: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    # The first iteration would take hours.
    options = ("--env", "endless:Env", "--set", "evaluators.fragment=1000000000", "--out", "run")
    process = rlcore.start("train", *small, *options, PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]))
    assert process.stderr is not None
    deadline = time.monotonic() + PATIENCE
    while not (tmp_path / "stepping").exists():
        assert time.monotonic() < deadline, "the run makes no progress"
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    while "stopping at the next safe point" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err


ENDLESS = """
import pathlib
import gymnasium
import numpy as np

class Env(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.float32([0]), {}

    def step(self, action):
        pathlib.Path("stepping").touch()
        return np.float32([0]), 1.0, False, False, {}
"""


def test_B072_counters_go_on(rlcore: Rlcore, small: tuple[str, ...]) -> None:
    longer = ("--set", "evaluators.fragment=500")
    assert rlcore.result("train", *small, *longer, "--stop", "env_steps=5000", "--out", "run")["env_steps"] == 5000
    assert rlcore.result("resume", "run", "--stop", "env_steps=5001")["env_steps"] == 6000


def test_a_run_on_a_terminal_shows_live_progress(rlcore: Rlcore, small: tuple[str, ...], tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")

    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", PROGRAM, "train", *small, "--stop", "iteration=20", "--out", "run"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:
        pass  # how Linux says that the other side has closed
    os.close(ours)
    assert process.stdout is not None
    assert json.loads(process.stdout.read())["iteration"] == 20
    process.stdout.close()
    assert process.wait() == 0
    assert b"\x1b[" in shown
    assert b"1,600 steps" in shown
    assert b"steps/s" in shown
    assert b" left" in shown
    assert b"iteration 20" not in shown


# -- evaluate


@pytest.fixture
def run(rlcore: Rlcore, small: tuple[str, ...], tmp_path: Path) -> Path:
    rlcore.result("train", *small, "--stop", "iteration=2", "--out", "run", "--checkpoint-every", "1")
    return tmp_path / "run"


def test_evaluate_prints_one_object(rlcore: Rlcore, run: Path) -> None:
    result = rlcore.result("evaluate", run, "--episodes", "6")
    assert list(result) == ["episode_return_mean", "episode_return_std", "episodes", "weights_version"]
    assert result["episodes"] == 6
    assert result["weights_version"] == load_manifest(run / "checkpoints" / "2")["weights_version"]
    assert result["episode_return_mean"] > 0
    assert rlcore.result("evaluate", run, "--episodes", "6") == result
    assert rlcore.result("evaluate", run / "checkpoints" / "2", "--episodes", "6") == result
    assert rlcore.result("evaluate", run, "--episodes", "6", "--framework", "numpy") == result


def test_evaluate_plays_what_the_run_itself_would_play(rlcore: Rlcore, run: Path) -> None:
    with Trainer.restore(run) as trainer:
        expected = trainer.evaluate(7).to_tree()
    assert rlcore.result("evaluate", run, "--episodes", "7") == expected


def test_evaluate_takes_an_earlier_and_the_best_checkpoint(rlcore: Rlcore, run: Path) -> None:
    version = load_manifest(run / "checkpoints" / "1")["weights_version"]
    assert rlcore.result("evaluate", run / "checkpoints" / "1", "--episodes", "1")["weights_version"] == version
    assert rlcore.result("evaluate", run / "checkpoints" / "best")["episodes"] == 20


def test_B152_exactly_as_many_episodes_as_asked(rlcore: Rlcore, run: Path) -> None:
    for episodes in (1, 6, 17):
        assert rlcore.result("evaluate", run, "--episodes", episodes)["episodes"] == episodes


DRAWN = """
import gymnasium
import numpy as np

class Env(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 9, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.float32([0]), {}

    def step(self, action):
        self.t += 1
        return np.float32([self.t]), 1.0, self.t == 4, False, {}

    def render(self):
        return np.full((8, 8, 3), 10 * self.t, np.uint8)
"""


def test_evaluate_films_every_episode(
    rlcore: Rlcore, small: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "drawn.py").write_text(DRAWN)
    monkeypatch.syspath_prepend(tmp_path)
    rlcore.result("train", *small, "--env", "drawn:Env", "--stop", "iteration=1", "--out", "run")
    result = rlcore.result("evaluate", "run", "--episodes", "2", "--video", "videos", "--trust")
    assert (result["episode_return_mean"], result["episodes"]) == (4.0, 2)
    assert sorted(path.stem for path in (tmp_path / "videos").iterdir()) == ["episode-0001", "episode-0002"]
    # Filmed or not, it is the same episodes; and the second time no file is written again.
    assert rlcore.result("evaluate", "run", "--episodes", "2", "--trust") == result
    rlcore.result("evaluate", "run", "--episodes", "1", "--video", "videos", "--trust")
    assert sorted(path.stem for path in (tmp_path / "videos").iterdir())[2:] == ["episode-0003"]


def test_evaluate_refuses(rlcore: Rlcore, run: Path, tmp_path: Path) -> None:
    assert rlcore.error("evaluate", "none") == "there is no checkpoint at none"
    assert rlcore.error("evaluate", tmp_path) == f"{tmp_path} is no checkpoint: it has no manifest.json"
    assert "Invalid value for '--episodes'" in rlcore.error("evaluate", run, "--episodes", "0")
    assert "unknown policy graph 'jax.pg'" in rlcore.error("evaluate", run, "--framework", "jax")


@pytest.mark.parametrize("command", ["evaluate", "resume"])
def test_damaged_checkpoints(rlcore: Rlcore, run: Path, command: str) -> None:
    last = run / "checkpoints" / "2"
    manifest, state = (last / "manifest.json").read_text(), (last / "state.json").read_bytes()

    (last / "state.json").write_bytes(state[:-7])
    assert f"checkpoint {last} is cut short: state.json has" in rlcore.error(command, run)
    (last / "state.json").write_bytes(state)

    (last / "manifest.json").write_text(json.dumps(json.loads(manifest) | {"format_version": 99}))
    assert f"checkpoint {last} has format version 99" in rlcore.error(command, run)
    (last / "manifest.json").write_text(manifest)

    (last / "policy.pkl").write_bytes(pickle.dumps({}))
    assert f"checkpoint {last} contains a pickle 'policy.pkl'" in rlcore.error(command, run)
    (last / "policy.pkl").unlink()

    rlcore.result(*((command, run, "--stop", "iteration=3") if command == "resume" else (command, run)))


@pytest.mark.parametrize("command", ["evaluate", "resume"])
def test_code_that_a_checkpoint_names_is_not_imported(
    rlcore: Rlcore, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    (tmp_path / "planted.py").write_text("from pathlib import Path\nPath('went-off').touch()\n")
    monkeypatch.syspath_prepend(tmp_path)
    last = run / "checkpoints" / "2"
    tree, manifest = load_tree(last)
    plain = {key: value for key, value in manifest.items() if key not in ("format", "format_version", "files")}
    plain["config"] = {**plain["config"], "env": "planted:Env"}
    save_tree(last, tree, plain)
    said = rlcore.error(command, run)
    assert "names code to import: env=planted:Env; nothing was loaded" in said
    assert "--trust" in said
    assert not (tmp_path / "went-off").exists()


def test_resume_refuses(rlcore: Rlcore, run: Path, tmp_path: Path) -> None:
    assert rlcore.error("resume", "none") == "there is no run folder at none"
    assert rlcore.error("resume", tmp_path) == f"{tmp_path} is no run folder: it has no config.yaml"
    assert rlcore.error("resume", run, "--stop", "iteration") == "--stop iteration: expected key=value"
