"""On Ray, with two evaluators, the synchronous algorithms learn what they learn inline: seeds, thresholds and all."""

from __future__ import annotations

import pytest

from rlcore.trainer import Trainer

pytest.importorskip("rlcore_sync")
pytest.importorskip("rlcore_gym")
pytest.importorskip("rlcore_torch")

#: Environment steps within which the mean return of the last hundred episodes is to reach 475.
WITHIN = {"ppo": 100_000, "a2c": 250_000, "pg": 150_000}


@pytest.mark.learning
@pytest.mark.xdist_group("ray")
@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("optimizer", ["multi_gpu", "allreduce"])
@pytest.mark.parametrize("algorithm", sorted(WITHIN))
def test_cartpole_is_learnt(algorithm: str, optimizer: str, seed: int) -> None:
    config = {
        "algorithm": algorithm,
        "framework": "torch",
        "env": "CartPole-v1",
        "optimizer": {"name": optimizer},
        "evaluators": {"count": 2},
        "runtime": "ray",
        "seed": seed,
        "stop": {"episode_return_mean": 475, "env_steps": WITHIN[algorithm]},
    }
    with Trainer(config) as trainer:
        result = trainer.train()
        assert result["episode_return_mean"] >= 475
        assert trainer.evaluate(100).episode_return_mean >= 475
