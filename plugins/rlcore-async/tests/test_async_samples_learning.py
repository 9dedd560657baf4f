"""The recipes impala and appo learn: inline, and on Ray with two evaluators; with an LSTM what nothing shows."""

from __future__ import annotations

from typing import Any

import pytest

from rlcore.trainer import Trainer

pytest.importorskip("rlcore_torch")

pytestmark = [pytest.mark.learning, pytest.mark.xdist_group("ray")]

#: Mean returns of the last hundred episodes, and the environment steps within which they are to be reached.
GOALS = {"CartPole-v1": (475.0, 300_000), "Acrobot-v1": (-100.0, 500_000)}
#: Of the likeliest actions. In Acrobot these are not the best while the policy is still undecided.
EVALUATED = {"CartPole-v1": 475.0, "Acrobot-v1": -120.0}


def train(algorithm: str, env: str, runtime: str, seed: int, **changes: Any) -> None:
    goal, within = GOALS[env]
    config = {
        "algorithm": algorithm,
        "framework": "torch",
        "env": env,
        "runtime": runtime,
        "seed": seed,
        "stop": {"episode_return_mean": goal, "env_steps": within},
        **({"evaluators": {"count": 2}} if runtime == "ray" else {}),
        **changes,
    }
    with Trainer(config) as trainer:
        assert trainer.train()["episode_return_mean"] >= goal
        assert trainer.evaluate(100).episode_return_mean >= EVALUATED[env]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("runtime", ["inline", "ray"])
@pytest.mark.parametrize("env", sorted(GOALS))
@pytest.mark.parametrize("algorithm", ["impala", "appo"])
def test_it_learns(algorithm: str, env: str, runtime: str, seed: int) -> None:
    train(algorithm, env, runtime, seed)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_impala_with_an_lstm_balances_what_it_cannot_see(seed: int) -> None:
    config = {
        "algorithm": "impala",
        "framework": "torch",
        "env": "rlcore.testing:HiddenVelocityCartPole",
        "model": {"hidden": [64], "lstm": 64},
        "policy": {"learning_rate": [[0, 2e-3], [200_000, 2e-4]], "gamma": 0.98},
        "evaluators": {"envs": 8, "fragment": 16},
        "optimizer": {"name": "async_samples", "samples_ahead": 1, "learner_queue": 1},
        "seed": seed,
        "stop": {"episode_return_mean": 450, "env_steps": 400_000},
    }
    with Trainer(config) as trainer:
        trainer.train()
        # Without a memory it is 200 at most.
        assert trainer.evaluate(100).episode_return_mean >= 400
