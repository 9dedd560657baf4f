"""The recipes impala and appo learn: inline, and on Ray with two evaluators; with an LSTM what nothing shows."""

from __future__ import annotations

import pytest

from rlcore.trainer import Trainer

pytest.importorskip("rlcore_torch")

pytestmark = [pytest.mark.learning, pytest.mark.xdist_group("ray")]

#: Environment steps, and what the mean return of a hundred episodes of the likeliest actions is to be after them.
TASKS = {"CartPole-v1": (200_000, 475.0), "Acrobot-v1": (300_000, -100.0)}


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("runtime", ["inline", "ray"])
@pytest.mark.parametrize("env", sorted(TASKS))
@pytest.mark.parametrize("algorithm", ["impala", "appo"])
def test_it_learns(algorithm: str, env: str, runtime: str, seed: int) -> None:
    env_steps, goal = TASKS[env]
    config = {
        "algorithm": algorithm,
        "framework": "torch",
        "env": env,
        "evaluators": {"count": 2},
        "runtime": runtime,
        "seed": seed,
        "stop": {"env_steps": env_steps},
    }
    with Trainer(config) as trainer:
        assert trainer.train()["episode_return_mean"] >= goal
        assert trainer.evaluate(100).episode_return_mean >= goal


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_impala_with_an_lstm_balances_what_it_cannot_see(seed: int) -> None:
    config = {
        "algorithm": "impala",
        "framework": "torch",
        "env": "rlcore.testing:HiddenVelocityCartPole",
        "model": {"hidden": [64], "lstm": 64},
        "policy": {"learning_rate": [[0, 2e-3], [300_000, 2e-4]], "gamma": 0.98},
        "optimizer": {"name": "async_samples", "minibatch_size": 256},
        "reward_filter": "return_std",
        "seed": seed,
        "stop": {"episode_return_mean": 450, "env_steps": 400_000},
    }
    with Trainer(config) as trainer:
        trainer.train()
        # Without a memory it is 200 at most.
        assert trainer.evaluate(100).episode_return_mean >= 400
