"""The optimizer: what it learns from, that it samples nothing, and that a run goes on exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlcore
from rlcore.batch import OBS
from rlcore.errors import OptimizerError, UserError
from rlcore_offline import read_dataset

for package in ("rlcore_torch", "rlcore_gym"):
    pytest.importorskip(package)


def trainer(data: Path, algorithm: str = "bc", **settings: Any) -> rlcore.Trainer:
    optimizer = {"dataset": str(data), "updates": 5, "minibatch_size": 16, **settings.pop("optimizer", {})}
    model = {"hidden": [8], **settings.pop("model", {})}
    config = {"algorithm": algorithm, "env": "CartPole-v1", "optimizer": optimizer, "model": model, **settings}
    return rlcore.Trainer({"evaluation": {"episodes": 2}, **config})


@pytest.mark.parametrize("algorithm", ["bc", "marwil", "cql"])
def test_it_learns_from_so_many_rows_and_samples_nothing(data: Path, algorithm: str) -> None:
    with trainer(data, algorithm) as one:
        before = one.weights()
        row = one.step()
        after = one.weights()
    assert (row["updates"], row["learnt_rows"], row["env_steps"], row["episodes"]) == (5, 80, 80, 0)
    names = [name for name in before["default"] if name.startswith("policy")]
    assert any((before["default"][name] != after["default"][name]).any() for name in names)


def test_episodes_are_learnt_from_whole_by_recurrent_policies(data: Path) -> None:
    with trainer(data, model={"lstm": 4}) as one:
        row = one.step()
    assert row["updates"] == 5 and row["learnt_rows"] >= 5 * 16
    lengths = read_dataset(data).batch.cuts["length"]
    assert row["learnt_rows"] <= 5 * (16 + lengths.max())


@pytest.mark.parametrize("algorithm", ["bc", "marwil", "cql"])
@pytest.mark.parametrize("lstm", [0, 4])
def test_it_goes_on_exactly(data: Path, tmp_path: Path, algorithm: str, lstm: int) -> None:
    if algorithm == "cql" and lstm:
        pytest.skip("soft actor-critic has no memory")
    model = {"lstm": lstm} if lstm else {}
    with trainer(data, algorithm, model=model) as one:
        one.step()
        one.save(tmp_path / "saved")
        one.step()
        whole = one.weights_sha256()
    with rlcore.Trainer.restore(tmp_path / "saved") as again:
        again.step()
        assert again.weights_sha256() == whole


def test_filters_have_the_statistics_of_the_dataset(data: Path) -> None:
    with trainer(data, filter="mean_std") as one:
        statistics = one.evaluators.filter_statistics()["default"][""]
    np.testing.assert_allclose(statistics["mean"], read_dataset(data).batch[OBS].mean(0, dtype=np.float64))
    assert statistics["count"] == len(read_dataset(data).batch)


def test_another_environment_is_refused(data: Path) -> None:
    with pytest.raises(OptimizerError, match=r"has observations of Box.* environment Acrobot-v1 has Box"):
        trainer(data, env="Acrobot-v1")


def test_evaluators_would_have_nothing_to_do(data: Path) -> None:
    with pytest.raises(OptimizerError, match=r"leave out evaluators\.count"):
        trainer(data, evaluators={"count": 1}, runtime="inline")


def test_a_dataset_has_to_be_named() -> None:
    with pytest.raises(OptimizerError, match=r"optimizer\.dataset: name the dataset"):
        rlcore.Trainer({"algorithm": "bc", "env": "CartPole-v1"})


def test_a_dataset_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no dataset"):
        trainer(tmp_path / "none")


@pytest.mark.parametrize("framework", ["torch", "tf"])
def test_cloning_takes_over_what_was_done(tmp_path: Path, framework: str) -> None:
    """A rule that can be learnt from twenty episodes: push to where the pole falls."""
    pytest.importorskip({"tf": "tensorflow"}.get(framework, framework))
    from support.leaning import record_leaning

    record_leaning(tmp_path / "data", episodes=20)
    optimizer = {"updates": 300, "minibatch_size": 64}
    with trainer(tmp_path / "data", framework=framework, optimizer=optimizer, policy={"learning_rate": 0.01}) as one:
        one.step()
        assert one.evaluate(20).episode_return_mean > 150.0
