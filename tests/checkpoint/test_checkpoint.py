"""Checkpoint folders: whole or not there, and nothing in them is executed."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore import checkpoint
from rlcore.checkpoint import Checkpoints, load_manifest, load_tree, save_tree
from rlcore.errors import CheckpointError, UserError

TREE = {
    "weights": {"policy.out.weight": np.arange(6, dtype=np.float32).reshape(2, 3)},
    "env_steps": 6000,
    "names": ["a"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_tree(tmp_path / "c", TREE, {"rlcore_version": "0.1.0", "restarts": [3]})
    return tmp_path / "c"


def refused(folder: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        load_tree(folder)
    assert isinstance(caught.value, UserError)
    return str(caught.value)


def change_manifest(folder: Path, **changes: Any) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | changes))


def test_tree_and_manifest_come_back(folder: Path) -> None:
    tree, manifest = load_tree(folder)
    assert tree["env_steps"] == 6000
    assert tree["names"] == ["a"]
    weight = tree["weights"]["policy.out.weight"]
    assert weight.dtype == np.float32
    assert weight.tolist() == [[0, 1, 2], [3, 4, 5]]
    weight += 1  # what is loaded belongs to the reader
    assert (manifest["restarts"], manifest["rlcore_version"]) == ([3], "0.1.0")
    assert (manifest["format"], manifest["format_version"]) == ("rlcore-checkpoint", 1)
    assert sorted(path.name for path in folder.iterdir()) == ["arrays.safetensors", "manifest.json", "state.json"]


def test_a_tree_without_arrays_is_stored_too(tmp_path: Path) -> None:
    save_tree(tmp_path / "c", {"count": 3}, {})
    assert load_tree(tmp_path / "c")[0] == {"count": 3}


def test_arrays_are_readable_by_name_with_other_tools(folder: Path) -> None:
    from safetensors.numpy import load_file

    assert list(load_file(folder / "arrays.safetensors")) == ["weights/policy.out.weight"]


def test_a_checkpoint_is_replaced_and_nothing_is_left_beside_it(folder: Path) -> None:
    save_tree(folder, {"env_steps": 7}, {})
    assert load_tree(folder)[0] == {"env_steps": 7}
    assert [path.name for path in folder.parent.iterdir()] == ["c"]


def test_a_failed_write_leaves_the_old_checkpoint(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, arrays: Any) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(checkpoint, "_write_arrays", full)
    with pytest.raises(CheckpointError, match="No space left on device"):
        save_tree(folder, {"env_steps": 7}, {})
    assert load_tree(folder)[0]["env_steps"] == 6000
    assert [path.name for path in folder.parent.iterdir()] == ["c"]


def test_a_value_that_cannot_be_stored_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"'/a/0' is a builtins\.object"):
        save_tree(tmp_path / "c", {"a": [object()]}, {})
    with pytest.raises(CheckpointError, match="the manifest cannot be written as JSON"):
        save_tree(tmp_path / "c", {}, {"a": object()})
    with pytest.raises(CheckpointError, match="the manifest's keys files belong to the format"):
        save_tree(tmp_path / "c", {}, {"files": {}})
    assert list(tmp_path.iterdir()) == []


def test_other_folders_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("x")
    with pytest.raises(CheckpointError, match="is not empty and no checkpoint"):
        save_tree(tmp_path / "home", {}, {})
    with pytest.raises(CheckpointError, match="is a file"):
        save_tree(tmp_path / "home" / "thesis.tex", {}, {})
    assert (tmp_path / "home" / "thesis.tex").read_text() == "x"


@pytest.mark.parametrize("name", ["arrays.safetensors", "state.json"])
def test_a_file_that_is_cut_short(folder: Path, name: str) -> None:
    size = (folder / name).stat().st_size
    os.truncate(folder / name, size - 5)
    assert refused(folder) == f"checkpoint {folder} is cut short: {name} has {size - 5} of {size} bytes"


def test_a_manifest_that_is_cut_short(folder: Path) -> None:
    os.truncate(folder / "manifest.json", 40)
    assert f"checkpoint {folder} is damaged: manifest.json is no JSON" in refused(folder)


@pytest.mark.parametrize("name", ["arrays.safetensors", "state.json"])
def test_a_file_that_is_missing(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert refused(folder) == f"checkpoint {folder} is cut short: {name} is missing"


@pytest.mark.parametrize("name", ["arrays.safetensors", "state.json"])
def test_a_flipped_bit(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[-3] ^= 1
    (folder / name).write_bytes(content)
    assert refused(folder) == f"checkpoint {folder} is damaged: {name} is not what was written"


def test_a_newer_version(folder: Path) -> None:
    change_manifest(folder, format_version=2, rlcore_version="9.1")
    assert refused(folder) == (
        f"checkpoint {folder} has format version 2, written by rlcore 9.1; this rlcore reads up to version 1: "
        "install a newer rlcore to read it"
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": "other"}, "is no checkpoint of rlcore"),
        ({"format_version": "1"}, "is damaged: its format_version is '1'"),
        ({"format_version": 0}, "is damaged: its format_version is 0"),
        ({"files": {}}, "does not list state.json and arrays.safetensors"),
        ({"files": {"state.json": 1, "arrays.safetensors": 2}}, "does not list state.json and arrays.safetensors"),
    ],
)
def test_a_manifest_that_nobody_wrote(folder: Path, changes: dict[str, Any], said: str) -> None:
    change_manifest(folder, **changes)
    assert said in refused(folder)


def test_no_checkpoint(tmp_path: Path) -> None:
    assert refused(tmp_path / "absent") == f"there is no checkpoint at {tmp_path / 'absent'}"
    assert refused(tmp_path) == f"{tmp_path} is no checkpoint: it has no manifest.json"


class Bomb:
    """A pickle of this creates a file when it is loaded."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return open, (str(self.target), "w")


@pytest.mark.parametrize("name", ["state.pkl", "policy.pt", "data"])
def test_a_pickle_beside_the_files(folder: Path, tmp_path: Path, name: str) -> None:
    (folder / name).write_bytes(pickle.dumps(Bomb(tmp_path / "gone-off")))
    assert refused(folder) == (
        f"checkpoint {folder} contains a pickle '{name}', which does not belong in one; nothing was loaded"
    )
    assert not (tmp_path / "gone-off").exists()


@pytest.mark.parametrize("name", ["manifest.json", "state.json", "arrays.safetensors"])
def test_a_pickle_in_place_of_a_file(folder: Path, tmp_path: Path, name: str) -> None:
    (folder / name).write_bytes(pickle.dumps(Bomb(tmp_path / "gone-off")))
    files = {each: checkpoint._fingerprint(folder / each) for each in ("state.json", "arrays.safetensors")}
    if name != "manifest.json":
        change_manifest(folder, files=files)
    assert refused(folder) == (
        f"checkpoint {folder} contains a pickle as '{name}'; pickles run code and are never loaded"
    )
    assert not (tmp_path / "gone-off").exists()


def test_code_beside_the_files(folder: Path) -> None:
    (folder / "model.py").write_text("print('hello')")
    assert "contains a file 'model.py', which does not belong in one" in refused(folder)
    (folder / "model.py").unlink()
    (folder / "package").mkdir()
    assert "contains a folder 'package'" in refused(folder)


def test_hidden_files_of_file_managers_do_no_harm(folder: Path) -> None:
    (folder / ".DS_Store").write_bytes(b"x")
    assert load_tree(folder)[0]["env_steps"] == 6000


@pytest.mark.parametrize("content", [b"", b"\xff" * 64, b"\x08\0\0\0\0\0\0\0{}      ", b"[" * 100_000])
def test_files_of_the_right_digest_and_the_wrong_content(folder: Path, content: bytes) -> None:
    for name in ("state.json", "arrays.safetensors"):
        original = (folder / name).read_bytes()
        (folder / name).write_bytes(content)
        change_manifest(
            folder, files={n: checkpoint._fingerprint(folder / n) for n in ("state.json", "arrays.safetensors")}
        )
        assert f"checkpoint {folder} " in refused(folder)
        (folder / name).write_bytes(original)


def test_loading_imports_no_framework(folder: Path) -> None:
    program = (
        "import sys; from rlcore.checkpoint import load_tree; load_tree(sys.argv[1]); "
        "print([n for n in ('torch', 'tensorflow', 'jax', 'ray') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# -- the folder of a run


def saved(checkpoints: Checkpoints, iteration: int, score: float | None = None) -> None:
    checkpoints.save(iteration, {"iteration": iteration}, {}, score)


def names(checkpoints: Checkpoints) -> list[str]:
    return sorted(path.name for path in checkpoints.folder.iterdir())


def test_the_newest_are_kept_and_the_best(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep=2)
    assert (checkpoints.latest(), checkpoints.best(), checkpoints.iterations()) == (None, None, [])
    for iteration, score in [(8, None), (9, 120.0), (10, float("nan")), (11, 475.0), (12, 475.0), (100, 30.0)]:
        saved(checkpoints, iteration, score)
    assert names(checkpoints) == ["100", "12", "best"]
    assert checkpoints.latest() == checkpoints.path(100)
    assert checkpoints.best_score() == 475.0
    tree, manifest = load_tree(checkpoints.folder / "best")
    assert (tree["iteration"], manifest["iteration"], manifest["score"]) == (11, 11, 475.0)


def test_the_best_goes_on_over_a_restart_with_returns_below_zero(tmp_path: Path) -> None:
    saved(Checkpoints(tmp_path, keep=1), 1, -180.0)
    saved(Checkpoints(tmp_path, keep=1), 2, -200.0)
    assert load_tree(tmp_path / "best")[0] == {"iteration": 1}
    saved(Checkpoints(tmp_path, keep=1), 3, -150.0)
    assert load_tree(tmp_path / "best")[0] == {"iteration": 3}


def test_no_best_where_none_is_wanted(tmp_path: Path) -> None:
    saved(Checkpoints(tmp_path, best=False), 1, 10.0)
    assert names(Checkpoints(tmp_path)) == ["1"]


def test_all_are_kept_without_a_bound(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for iteration in range(1, 6):
        saved(checkpoints, iteration)
    assert checkpoints.iterations() == [1, 2, 3, 4, 5]
    checkpoints.discard_after(3)
    assert checkpoints.iterations() == [1, 2, 3]
    with pytest.raises(CheckpointError, match="at least one checkpoint is kept, not 0"):
        Checkpoints(tmp_path, keep=0)


def test_leftovers_of_interrupted_writes(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    saved(checkpoints, 1, 1.0)
    saved(checkpoints, 2, 0.0)
    # Killed while writing 3, while replacing best (between the two renames), and while removing 0.
    shutil.copytree(tmp_path / "2", tmp_path / ".writing-3-0a0b0c0d")
    (tmp_path / ".writing-3-0a0b0c0d" / "manifest.json").unlink()
    os.rename(tmp_path / "best", tmp_path / ".replaced-best-0a0b0c0d")
    (tmp_path / ".removing-0-0a0b0c0d").mkdir()
    (tmp_path / "notes.txt").write_text("kept")
    assert checkpoints.latest() == tmp_path / "2"
    assert checkpoints.best() is None
    checkpoints.clean()
    assert names(checkpoints) == ["1", "2", "best", "notes.txt"]
    assert load_tree(tmp_path / "best")[0] == {"iteration": 1}


def test_a_damaged_newest_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    saved(checkpoints, 1)
    saved(checkpoints, 2)
    os.truncate(tmp_path / "2" / "state.json", 3)
    latest = checkpoints.latest()
    assert latest == tmp_path / "2"
    with pytest.raises(CheckpointError, match="is cut short"):
        load_manifest(latest)


WRITER = """
import sys
import numpy as np
from rlcore.checkpoint import Checkpoints
checkpoints = Checkpoints(sys.argv[1], keep=2)
for iteration in range(1, 100000):
    checkpoints.save(iteration, {"i": iteration, "a": np.full(200_000, iteration)}, {}, float(iteration))
    print(iteration, flush=True)
"""


@pytest.mark.parametrize("saves", [1, 3, 6])
def test_killed_at_any_moment_the_latest_is_whole(tmp_path: Path, saves: int) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(saves):
            last = int(process.stdout.readline())
        process.kill()
    checkpoints = Checkpoints(tmp_path)
    latest = checkpoints.latest()
    assert latest is not None
    tree, _ = load_tree(latest)
    assert tree["i"] >= last
    assert (tree["a"] == tree["i"]).all()
    checkpoints.clean()
    best = checkpoints.best()
    assert best is not None
    assert load_tree(best)[0]["i"] >= last - 1
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_parts_can_be_left_where_they_are(tmp_path: Path) -> None:
    shared = np.arange(5)
    tree = {"weights": {"a": shared}, "replay": {"rows": np.ones((3, 2)), "again": shared.copy()}, "count": 3}
    save_tree(tmp_path / "c", tree, {})
    found, _ = load_tree(tmp_path / "c", leave_out=("replay", "other"))
    assert set(found) == {"weights", "count"} and found["weights"]["a"].tolist() == shared.tolist()
    whole, _ = load_tree(tmp_path / "c")
    assert whole["replay"]["again"].tolist() == shared.tolist()
