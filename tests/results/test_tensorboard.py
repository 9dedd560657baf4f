"""TensorBoard events, read back with TensorBoard's own reader."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rlcore.tensorboard import EventWriter, open_events

pytest.importorskip("tensorboard")

READ = """
import json, sys
sys.modules["tensorflow"] = None  # the reader's own file functions are enough
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1]).Reload()
print(json.dumps({tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}))
"""


def read(folder: Path) -> object:
    import json

    done = subprocess.run([sys.executable, "-c", READ, str(folder)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_rows_become_scalars_over_environment_steps(tmp_path: Path) -> None:
    with EventWriter(tmp_path) as events:
        events.write({"iteration": 1, "env_steps": 1000, "episode_return_mean": None, "status": "x", "ok": True})
        events.write({"iteration": 2, "env_steps": 2000, "episode_return_mean": 21.5})
    events.close()
    assert read(tmp_path) == {"iteration": [[1000, 1.0], [2000, 2.0]], "episode_return_mean": [[2000, 21.5]]}


def test_a_resumed_run_replaces_what_it_runs_again(tmp_path: Path) -> None:
    with EventWriter(tmp_path) as events:
        for step in (1000, 2000, 3000):
            events.write({"env_steps": step, "loss": 1.0})
    with EventWriter(tmp_path) as events:
        events.write({"env_steps": 2000, "loss": 0.5})
    assert read(tmp_path) == {"loss": [[1000, 1.0], [2000, 0.5]]}


def test_no_framework_is_imported(tmp_path: Path) -> None:
    program = (
        "import sys; from rlcore.tensorboard import EventWriter; "
        f"EventWriter({str(tmp_path)!r}).write({{'env_steps': 1, 'loss': 2.0}}); "
        "print([n for n in ('torch', 'tensorflow', 'jax') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_without_tensorboard_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert open_events(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_a_broken_tensorboard_is_said_and_does_not_stop_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto", None)
    with pytest.warns(UserWarning, match="no TensorBoard events: the installed tensorboard cannot be imported"):
        assert open_events(tmp_path) is None
