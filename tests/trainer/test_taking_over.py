"""A trainer that goes on from all that another run had come to, with settings of its own; and trainers as actors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore.checkpoint import load_manifest
from rlcore.errors import CheckpointError, ConfigError, UserError
from rlcore.results import RunFolder
from rlcore.trainer import Trainer

pytest.importorskip("rlcore_sync")
pytest.importorskip("rlcore_gym")


def config(**changes: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "algorithm": "pg",
        "framework": "numpy",
        "env": "CartPole-v1",
        "seed": 1,
        "filter": "mean_std",
        "evaluators": {"envs": 2, "fragment": 40},
        "policy": {"learning_rate": 0.01},
        "stop": {"iteration": 6},
    }
    return settings | changes


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A run of three iterations."""
    with Trainer(config(stop={"iteration": 3}), out=tmp_path / "source") as trainer:
        trainer.train()
    return tmp_path / "source"


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in one)


def test_weights_optimizer_states_filters_and_counters_are_taken_over(source: Path) -> None:
    with Trainer.restore(source) as before, Trainer.take_over(source, config(seed=2)) as after:
        assert same(before.weights()["default"], after.weights()["default"])
        assert after.counters == before.counters
        assert (after.row, after.config.seed) == (before.row, 2)
        graphs = [trainer.optimizers[0].graph_states()["default"] for trainer in (before, after)]
        assert [sorted(state) for state in graphs] == [sorted(graphs[0])] * 2
        statistics = [trainer.evaluators.local.filters["default"][""].get_state() for trainer in (before, after)]
        assert str(statistics[0]) == str(statistics[1]) and statistics[0]["statistics"]["count"] > 0


def test_it_goes_on_with_its_own_settings(source: Path) -> None:
    still = config(policy={"learning_rate": 0.0})
    with Trainer.take_over(source, still) as frozen, Trainer.take_over(source, config()) as moving:
        weights = frozen.weights()["default"]
        rows = [trainer.step() for trainer in (frozen, moving)]
        assert [row["iteration"] for row in rows] == [4, 4]
        assert [row["env_steps"] for row in rows] == [320, 320]
        assert same(weights, frozen.weights()["default"])
        assert not same(weights, moving.weights()["default"])


def test_environments_begin_anew_with_its_own_seed(source: Path) -> None:
    lengths = []
    for seed in (2, 2, 3):
        with Trainer.take_over(source, config(seed=seed, policy={"learning_rate": 0.0})) as trainer:
            for _ in range(3):
                trainer.step()
            lengths.append(trainer.row["episode_length_mean"])
    assert lengths[0] == lengths[1] != lengths[2]


def test_a_run_that_gives_up_its_own_course(source: Path, tmp_path: Path) -> None:
    with Trainer(config(seed=7, stop={"iteration": 5}), out=tmp_path / "weak") as trainer:
        trainer.train()
        first = RunFolder.open(tmp_path / "weak").rows()[:3]
    with Trainer.take_over(source, config(seed=8), out=tmp_path / "weak") as trainer:
        # At once, so that a kill does not bring back what was given up.
        run = RunFolder.open(tmp_path / "weak")
        latest = run.checkpoints().latest()
        assert latest is not None and latest.name == "3"
        assert load_manifest(latest)["weights_sha256"] == load_manifest(source / "checkpoints/3")["weights_sha256"]
        assert (load_manifest(latest)["config"]["seed"], "seed: 8" in run.config_yaml) == (8, True)
        trainer.train()
    rows = run.rows()
    assert rows[:3] == first
    assert [row["iteration"] for row in rows] == [1, 2, 3, 4, 5, 6]
    with Trainer.restore(tmp_path / "weak") as again:
        assert again.stop_reached() == "iteration=6"


def test_a_new_folder_begins_where_the_other_was(source: Path, tmp_path: Path) -> None:
    with Trainer.take_over(source, config(), out=tmp_path / "new") as trainer:
        trainer.train()
    assert [row["iteration"] for row in RunFolder.open(tmp_path / "new").rows()] == [4, 5, 6]
    assert (tmp_path / "new/checkpoints/3/manifest.json").is_file()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"filter": "none"}, "filter: 'none' cannot take over the state of .*, where it is 'mean_std'"),
        ({"optimizer": {"name": "allreduce"}}, r"optimizer\.name: 'allreduce' cannot take over"),
        ({"framework": "torch"}, r"graph: 'torch\.pg' cannot take over the state of .*, where it is 'numpy\.pg'"),
    ],
)
def test_state_that_would_not_fit_is_refused_by_name(changes: dict[str, Any], said: str, source: Path) -> None:
    if changes.get("framework") == "torch":
        pytest.importorskip("rlcore_torch")
    with pytest.raises(ConfigError, match=said):
        Trainer.take_over(source, config(**changes))


def test_nothing_is_written_where_there_is_nothing_to_take_over(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no checkpoint at"):
        Trainer.take_over(tmp_path / "nowhere", config(), out=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_checkpoints_are_written_when_asked_for(tmp_path: Path) -> None:
    with Trainer(config(), out=tmp_path / "run") as trainer:
        assert trainer.stop_reached() is None
        for _ in range(2):
            trainer.step()
        checkpoints = RunFolder.open(tmp_path / "run").checkpoints()
        assert checkpoints.iterations() == []
        trainer.checkpoint()
        trainer.checkpoint()
        assert checkpoints.iterations() == [2]
    with Trainer(config()) as trainer:
        trainer.step()
        trainer.checkpoint()
    with pytest.raises(UserError, match="the trainer is closed"):
        trainer.checkpoint()
