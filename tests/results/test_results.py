"""Run folders: created whole, refused where one is, and readable after a kill."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rlcore.errors import RunFolderError, UserError
from rlcore.results import RunFolder, is_run_folder


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "runs" / "one", "algorithm: ppo\n")


def refused(message: str) -> pytest.RaisesExc[UserError]:
    return pytest.raises(RunFolderError, check=lambda error: str(error) == message)


def test_create_writes_the_config_and_nothing_else(run: RunFolder) -> None:
    assert [path.name for path in run.path.iterdir()] == ["config.yaml"]
    assert RunFolder.open(run.path).config_yaml == "algorithm: ppo\n"
    assert is_run_folder(run.path)
    assert (run.rows(), run.result(), run.checkpoints().latest()) == ([], None, None)


def test_an_existing_run_is_refused(run: RunFolder) -> None:
    with refused(
        f"there is a run in {run.path} already: choose another folder with --out, or go on with "
        f"'rlcore resume {run.path}'"
    ):
        RunFolder.create(run.path, "algorithm: a2c\n")
    assert run.config_yaml == "algorithm: ppo\n"


def test_a_folder_with_other_things_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with refused(f"{tmp_path} exists and is not empty: choose another folder with --out"):
        RunFolder.create(tmp_path, "")
    with refused(f"{tmp_path / 'thesis.tex'} exists and is not empty: choose another folder with --out"):
        RunFolder.create(tmp_path / "thesis.tex", "")
    with pytest.raises(RunFolderError, match="cannot create the run folder"):
        RunFolder.create(tmp_path / "thesis.tex" / "run", "")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    assert RunFolder.create(tmp_path, "seed: 1\n").config_yaml == "seed: 1\n"


def test_open_refuses_what_is_no_run(tmp_path: Path) -> None:
    with refused(f"there is no run folder at {tmp_path / 'absent'}"):
        RunFolder.open(tmp_path / "absent")
    with refused(f"{tmp_path} is no run folder: it has no config.yaml"):
        RunFolder.open(tmp_path)


def test_rows_come_back_as_plain_json(run: RunFolder) -> None:
    run.append({"iteration": 1, "episode_return_mean": None, "episodes_new": np.int64(0), "loss": np.float32(0.5)})
    run.append({"iteration": 2, "episode_return_mean": float("nan"), "loss": float("inf"), "learnt": np.bool_(True)})
    lines = (run.path / "progress.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"iteration": 1, "episode_return_mean": None, "episodes_new": 0, "loss": 0.5},
        {"iteration": 2, "episode_return_mean": None, "loss": None, "learnt": True},
    ]
    assert run.rows() == [json.loads(line) for line in lines]


def test_a_row_is_flat(run: RunFolder) -> None:
    with pytest.raises(TypeError, match="row key 'stats' is a dict; rows are flat"):
        run.append({"iteration": 1, "stats": {}})
    assert run.rows() == []


@pytest.mark.parametrize("rest", [b'{"itera', b'{"iteration": 3, "env_steps": 9', b'{"iteration": 3}', b"\xff\xfe"])
def test_a_last_row_that_a_kill_cut_short_is_left_out(run: RunFolder, rest: bytes) -> None:
    for iteration in (1, 2):
        run.append({"iteration": iteration})
    with open(run.path / "progress.jsonl", "ab") as file:
        file.write(rest)
    assert run.rows() == [{"iteration": 1}, {"iteration": 2}]
    run.truncate(after_iteration=2)
    run.append({"iteration": 3})
    assert run.rows() == [{"iteration": 1}, {"iteration": 2}, {"iteration": 3}]


def test_truncate_drops_what_came_after_the_checkpoint(run: RunFolder) -> None:
    for iteration in range(1, 6):
        run.append({"iteration": iteration, "env_steps": 100 * iteration})
    run.truncate(after_iteration=3)
    assert [row["env_steps"] for row in run.rows()] == [100, 200, 300]
    run.truncate(after_iteration=0)
    assert run.rows() == []


@pytest.mark.parametrize("line", ["not json", "[1]", '{"env_steps": 3}'])
def test_damage_in_the_middle_is_said(run: RunFolder, line: str) -> None:
    (run.path / "progress.jsonl").write_text('{"iteration": 1}\n' + line + '\n{"iteration": 3}\n')
    with pytest.raises(RunFolderError, match="is damaged: line 2 is no"):
        run.rows()


def test_the_result(run: RunFolder) -> None:
    written = run.finish({"iteration": np.int32(3), "status": "stopped", "episode_return_mean": np.nan})
    assert written == {"iteration": 3, "status": "stopped", "episode_return_mean": None}
    assert run.result() == written
    assert json.loads((run.path / "result.json").read_text()) == written
    run.reopen()
    assert run.result() is None
    (run.path / "result.json").write_text("{")
    with pytest.raises(RunFolderError, match=r"result\.json is no JSON"):
        run.result()


def test_replacing_leaves_nothing_beside(run: RunFolder) -> None:
    run.replace_config("algorithm: ppo\nseed: 2\n")
    assert run.config_yaml == "algorithm: ppo\nseed: 2\n"
    assert [path.name for path in run.path.iterdir()] == ["config.yaml"]
