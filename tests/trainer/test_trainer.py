"""A run from its start: what it makes, writes and tells, and what it refuses."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.run_log import Log
from support.runs import linear

import rlcore
from rlcore.errors import ConfigError, PluginError, RunFolderError, UserError
from rlcore.progress import ROW_KEYS
from rlcore.resolve import resolve
from rlcore.results import RunFolder
from rlcore.testing.environments import CountEnv
from rlcore.trainer import Trainer
from rlcore.weights_digest import weights_sha256


def test_a_run_writes_its_folder(tmp_path: Path) -> None:
    with Trainer(linear({"evaluation.every_env_steps": 150, "checkpoints.every": 2}), out=tmp_path / "run") as trainer:
        result = trainer.train()
        sha256 = trainer.weights_sha256()
    run = RunFolder.open(tmp_path / "run")
    rows = run.rows()
    assert [row["iteration"] for row in rows] == [1, 2, 3]
    assert all(tuple(row)[: len(ROW_KEYS)] == ROW_KEYS for row in rows)
    assert all(row["wall_s"] > 0 and row["env_steps_per_s"] > 0 for row in rows)
    assert (
        run.result()
        == result
        == {
            **rows[-1],
            "status": "stopped",
            "stop_reason": "iteration=3",
            "weights_sha256": sha256,
        }
    )
    assert run.checkpoints().iterations() == [2, 3] and run.checkpoints().best() is not None
    assert resolve(rlcore.config_text.parse_yaml(run.config_yaml)).config == trainer.config


def test_the_events_of_a_run_come_in_order(tmp_path: Path) -> None:
    log = Log()
    config = linear(
        {
            "env": "rlcore.testing.environments:Count",
            "evaluators": {"envs": 1, "fragment": 3},
            "evaluation": {"every_env_steps": 6, "episodes": 1},
            "stop.iteration": 2,
        }
    )
    with Trainer(config, hooks=[log], out=tmp_path / "run") as trainer:
        trainer.train()
    assert log.events == [
        ("run_start", tmp_path / "run"),
        ("episode_end", 0),
        ("iteration", 1),
        ("episode_end", 0),
        ("evaluation", 6, 1),
        ("checkpoint", "2", 2, True),
        ("iteration", 2),
        ("run_end", "stopped", 2),
    ]


def test_episodes_are_told_with_the_number_of_their_evaluator() -> None:
    log = Log()
    config = linear(
        {
            "env": "rlcore.testing.environments:Count",
            "evaluators": {"count": 2, "envs": 1, "fragment": 3},
            "runtime": "inline",
        }
    )
    with Trainer(config, hooks=[log]) as trainer:
        trainer.step()
    assert [event for event in log.events if event[0] == "episode_end"] == [("episode_end", 0), ("episode_end", 1)]


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Trainer(linear()) as trainer:
        result = trainer.train()
        assert result["weights_sha256"] == trainer.weights_sha256()
    assert list(tmp_path.iterdir()) == []


def test_training_goes_on_after_its_end_where_more_is_asked_for() -> None:
    with Trainer(linear()) as trainer:
        assert trainer.train()["iteration"] == 3
        assert trainer.train()["iteration"] == 3
        assert trainer.step()["iteration"] == 4


def test_a_run_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(RunFolderError, match="exists and is not empty"):
        Trainer(linear(), out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"algorithm": "pgg"}, PluginError, "unknown algorithm 'pgg'; did you mean 'pg'"),
        ({"framework": "nunpy"}, PluginError, "unknown framework 'nunpy'; did you mean 'numpy'"),
        ({"optimizer.name": "all_reduce"}, PluginError, "unknown optimizer 'all_reduce'; did you mean 'allreduce'"),
        ({"env": "CartPole-v9"}, PluginError, "CartPole-v9"),
        ({"policy.learnin_rate": 1}, ConfigError, "policy.learnin_rate: unknown key, did you mean 'learning_rate'?"),
        ({"env_settings": {"lenght": 1}}, UserError, "lenght"),
        ({"policies": {"default": {"trained": False}}}, ConfigError, "policies: none of them is trained"),
        ({"policy_of": "rlcore.trainer:__doc__"}, ConfigError, "neither a function nor a mapping"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(
    changes: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error) as caught:
        Trainer(linear(changes), out=tmp_path / "run")
    assert message in str(caught.value) and len(str(caught.value).splitlines()) <= 4
    assert not (tmp_path / "run").exists()


class Counted(CountEnv):
    """Counts how many of it have been made, and how many closed."""

    made, closed = 0, 0

    def __init__(self) -> None:
        super().__init__(7)
        Counted.made += 1

    def close(self) -> None:
        Counted.closed += 1


@pytest.mark.parametrize(
    ("evaluators", "made"), [({"envs": 3}, 3), ({"count": 2, "envs": 3}, 7)], ids=["driver", "two evaluators"]
)
def test_no_environment_is_made_that_is_not_used_and_all_are_closed(evaluators: dict[str, int], made: int) -> None:
    Counted.made = Counted.closed = 0
    with Trainer(linear({"env": Counted, "evaluators": evaluators, "runtime": "inline"})) as trainer:
        assert Counted.made == made
        trainer.step()
    assert Counted.made == made and Counted.closed >= made


def test_the_environment_is_closed_where_the_parts_cannot_be_built() -> None:
    Counted.made = Counted.closed = 0
    with pytest.raises(ConfigError, match="none of them is trained"):
        Trainer(linear({"env": Counted, "policies": {"default": {"trained": False}}}))
    assert Counted.made == 3 and Counted.closed >= 3


def test_an_optimizer_that_needs_another_graph_says_so(tmp_path: Path) -> None:
    config = linear({"resources.learner_gpus": 1, "optimizer.name": "allreduce"})
    with pytest.raises(ConfigError, match=r"^resources\.learner_gpus: optimizer allreduce has no"):
        Trainer(config, out=tmp_path / "run")


def test_the_best_checkpoint_is_that_of_the_best_evaluation(tmp_path: Path) -> None:
    config = linear({"evaluation": {"every_env_steps": 75, "episodes": 3}, "stop.iteration": 8})
    with Trainer(config, out=tmp_path / "run") as trainer:
        trainer.train()
    run = RunFolder.open(tmp_path / "run")
    means = [row["evaluation_return_mean"] for row in run.rows()]
    assert run.checkpoints().best_score() == max(means)
    with Trainer.restore(tmp_path / "run" / "checkpoints" / "best") as best:
        assert best.counters.iteration == means.index(max(means)) + 1


def test_only_so_many_checkpoints_are_kept(tmp_path: Path) -> None:
    config = linear({"checkpoints": {"every": 1, "keep": 2, "best": False}, "stop.iteration": 5})
    with Trainer(config, out=tmp_path / "run") as trainer:
        trainer.train()
    run = RunFolder.open(tmp_path / "run")
    assert run.checkpoints().iterations() == [4, 5] and run.checkpoints().best() is None


def test_the_digest_of_weights_tells_names_types_shapes_and_values_apart() -> None:
    weights = {"a": {"w": np.zeros((2, 3), np.float32), "b": np.ones(2)}, "z": {"w": np.float64(1.0)}}
    same = {"z": weights["z"], "a": {"b": weights["a"]["b"], "w": np.asfortranarray(weights["a"]["w"])}}
    assert weights_sha256(weights) == weights_sha256(same)
    others = [
        {"a": {"w": np.zeros((3, 2), np.float32), "b": np.ones(2)}, "z": weights["z"]},
        {"a": {"w": np.zeros((2, 3), np.float64), "b": np.ones(2)}, "z": weights["z"]},
        {"a": {"v": np.zeros((2, 3), np.float32), "b": np.ones(2)}, "z": weights["z"]},
        {"a": {"w": np.zeros((2, 3), np.float32), "b": np.array([1.0, 2.0])}, "z": weights["z"]},
    ]
    assert len({weights_sha256(one) for one in [weights, *others]}) == 5
    expected = hashlib.sha256(b"p\0w\0<i2\0(3,)\0" + bytes([0, 0, 1, 0, 2, 0])).hexdigest()
    assert weights_sha256({"p": {"w": np.arange(3, dtype=np.int16)}}) == expected


@pytest.mark.parametrize("given", ["ppo", None, 3, ["ppo"]])
def test_what_is_no_config(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"^a config is a mapping with keys such as "):
        Trainer(given)


def test_numbers_of_numpy_are_numbers() -> None:
    config = linear({"seed": np.int64(3), "stop.iteration": np.int32(1), "stop.env_steps": np.float32(1e6)})
    with Trainer(
        config | {"policy": {"gamma": np.float64(0.9)}, "env_settings": {"sutton_barto_reward": np.True_}}
    ) as one:
        assert one.config.seed == 3 and type(one.config.seed) is int
        assert one.config.to_tree()["env_settings"] == {"sutton_barto_reward": True}
        one.train()
