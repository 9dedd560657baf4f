"""Datasets on disk: what is written is read, and nothing else is taken for one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlcore.batch import SampleBatch
from rlcore.errors import BatchError, CheckpointError, UserError
from rlcore_offline import DatasetWriter, read_dataset

SPACES = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32), gymnasium.spaces.Discrete(3, start=1)


def episodes(lengths: list[int], first: int = 0, **rows: Any) -> SampleBatch:
    """Whole episodes of these lengths, the last of which is truncated."""
    sizes, total = np.array(lengths), sum(lengths)
    last = np.cumsum(sizes) - 1
    terminated = np.zeros(total, np.bool_)
    terminated[last[:-1]] = True
    truncated = np.zeros(total, np.bool_)
    truncated[last[-1]] = True
    table = {
        "obs": np.arange(total * 2, dtype=np.float32).reshape(total, 2) + first,
        "actions": np.arange(total) % 3,
        "rewards": np.ones(total, np.float32),
        "terminated": terminated,
        "truncated": truncated,
        "t": np.concatenate([np.arange(size, dtype=np.int32) for size in lengths]),
        "env_step": np.concatenate([np.arange(size) for size in lengths]),
        "vf_preds": np.zeros(total, np.float32),
    }
    cuts = {
        "start": np.cumsum(sizes) - sizes,
        "length": sizes,
        "eps_id": np.arange(len(lengths)) + first,
        "bootstrap": np.arange(len(lengths)) == len(lengths) - 1,
        "last_obs": np.zeros((len(lengths), 2), np.float32),
        "state_in.0": np.zeros((len(lengths), 4), np.float32),
        **{name: np.zeros(len(lengths), np.int64) for name in ("slot", "agent_id", "policy_version")},
    }
    return SampleBatch({**table, **rows}, cuts)


def test_parts_are_read_one_behind_the_other(tmp_path: Path) -> None:
    writer = DatasetWriter(tmp_path / "data", SPACES, "some:env")
    writer.write(episodes([3, 2]))
    writer.write(episodes([4], first=100))
    found = read_dataset(tmp_path / "data")
    assert (found.spaces, found.env, found.episodes, len(found.batch)) == (SPACES, "some:env", 3, 9)
    np.testing.assert_array_equal(found.batch["obs"][:, 0], [0, 2, 4, 6, 8, 100, 102, 104, 106])
    np.testing.assert_array_equal(found.batch.cuts["eps_id"], [0, 1, 100])
    np.testing.assert_array_equal(found.returns(), [3.0, 2.0, 4.0])


def test_what_only_its_policy_had_is_left_out(tmp_path: Path) -> None:
    DatasetWriter(tmp_path / "data", SPACES, "some:env").write(episodes([3], action_logp=np.zeros(3, np.float32)))
    found = read_dataset(tmp_path / "data").batch
    assert "vf_preds" not in found and "state_in.0" not in found.cuts
    assert "action_logp" in found


@pytest.mark.parametrize("broken", ["begin", "end"])
def test_fragments_are_no_episodes(tmp_path: Path, broken: str) -> None:
    batch = episodes([3, 2])
    odd = {"begin": {"t": batch["t"] + 1}, "end": {"truncated": np.zeros(5, np.bool_)}}[broken]
    with pytest.raises(BatchError, match="no whole episode"):
        DatasetWriter(tmp_path / "data", SPACES, "some:env").write(batch.with_rows(**odd))


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="exists"):
        DatasetWriter(tmp_path, SPACES, "some:env")


def test_an_empty_folder_is_no_dataset(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(UserError, match="no dataset"):
            read_dataset(folder)


def test_a_part_cut_short_is_found_out(tmp_path: Path) -> None:
    DatasetWriter(tmp_path / "data", SPACES, "some:env").write(episodes([3]))
    arrays = tmp_path / "data" / "000000" / "arrays.safetensors"
    arrays.write_bytes(arrays.read_bytes()[:-4])
    with pytest.raises(CheckpointError):
        read_dataset(tmp_path / "data")


def test_a_checkpoint_is_no_dataset(tmp_path: Path, run: Path) -> None:
    with pytest.raises(CheckpointError, match="no part of a dataset"):
        read_dataset(run / "checkpoints")


def test_parts_of_different_environments_are_refused(tmp_path: Path) -> None:
    for name in ("one", "other"):
        DatasetWriter(tmp_path / name, SPACES, f"some:{name}").write(episodes([3]))
    (tmp_path / "other" / "000000").rename(tmp_path / "one" / "000001")
    with pytest.raises(CheckpointError, match="different environments"):
        read_dataset(tmp_path / "one")


def test_a_manifest_that_lacks_its_spaces_is_refused(tmp_path: Path) -> None:
    DatasetWriter(tmp_path / "data", SPACES, "some:env").write(episodes([3]))
    path = tmp_path / "data" / "000000" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["action_space"]
    path.write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError):
        read_dataset(tmp_path / "data")
