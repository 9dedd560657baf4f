"""tf.pg on the same path as every framework: a recipe, an optimizer, evaluators, a trainer."""

from __future__ import annotations

from typing import Any

import pytest

from rlcore.trainer import Trainer

pytest.importorskip("rlcore_sync")


def config(**settings: Any) -> dict[str, Any]:
    return {"algorithm": "pg", "framework": "tf", "env": "CartPole-v1", **settings}


@pytest.mark.parametrize("optimizer", ["multi_gpu", "allreduce"])
def test_a_run_that_was_interrupted_goes_on_exactly(tmp_path, optimizer):
    shared = {"seed": 3, "optimizer": {"name": optimizer}, "evaluators": {"envs": 4, "fragment": 50}}
    with Trainer(config(**shared, stop={"iteration": 4})) as whole:
        whole.train()
        expected = whole.weights_sha256()
    with Trainer(config(**shared, stop={"iteration": 2})) as half:
        half.train()
        half.save(tmp_path / "saved")
    with Trainer.restore(tmp_path / "saved") as rest:
        rest.step()
        assert rest.step()["skipped_updates"] == 0
        assert rest.weights_sha256() == expected


@pytest.mark.learning
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_it_learns_cartpole(seed):
    with Trainer(config(seed=seed, stop={"episode_return_mean": 475, "env_steps": 150_000})) as trainer:
        assert trainer.train()["episode_return_mean"] >= 475
        assert trainer.evaluate(100).episode_return_mean >= 475
