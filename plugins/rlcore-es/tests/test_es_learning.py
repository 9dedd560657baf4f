"""The recipe es learns: inline, and on Ray with two evaluators."""

from __future__ import annotations

from typing import Any

import pytest

from rlcore.trainer import Trainer

pytest.importorskip("rlcore_torch")
pytest.importorskip("rlcore_batched")

pytestmark = [pytest.mark.learning, pytest.mark.xdist_group("ray")]

CARTPOLE: dict[str, Any] = {"stop": {"episode_return_mean": 475.0, "env_steps": 3_000_000}}
#: Around a large step weights that have swung up may fail again: what was evaluated well is what is kept.
PENDULUM: dict[str, Any] = {
    "evaluation": {"every_env_steps": 100_000, "episodes": 50},
    "stop": {"evaluation_return_mean": -220.0, "env_steps": 4_000_000},
}
#: How long is trained, and what a hundred episodes are to return afterwards.
TASKS = {
    "CartPole-v1": (CARTPOLE, 475.0),
    "Pendulum-v1": (PENDULUM, -250.0),
    "batched:cartpole": (CARTPOLE, 475.0),
}


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("runtime", ["inline", "ray"])
@pytest.mark.parametrize("env", sorted(TASKS))
def test_it_learns(env: str, runtime: str, seed: int) -> None:
    training, goal = TASKS[env]
    config = {"algorithm": "es", "framework": "torch", "env": env, "runtime": runtime, "seed": seed, **training}
    with Trainer({**config, "evaluators": {"count": 2}}) as trainer:
        ((key, least), _) = training["stop"].items()
        assert trainer.train()[key] >= least
        assert trainer.evaluate(100).episode_return_mean >= goal


@pytest.mark.parametrize("seed", [1, 2])
def test_ppo_es_climbs_where_ppo_learns_not_to_move(seed: int) -> None:
    """The claim of the docs, on few of its seeds: the same steps, networks, learning rate and batches for both."""
    config = {
        "framework": "torch",
        "env": "MountainCarContinuous-v0",
        "runtime": "inline",
        "seed": seed,
        "stop": {"env_steps": 200_000},
    }
    same = {
        "policy": {"learning_rate": 1e-3},
        "model": {"hidden": [16, 16]},
        "evaluators": {"envs": 2, "fragment": 1000},
        "optimizer": {"epochs": 10, "minibatch_size": 256},
    }
    found = {}
    for algorithm, settings in (("ppo_es", {}), ("ppo", same)):
        with Trainer({"algorithm": algorithm, **config, **settings}) as trainer:
            trainer.train()
            found[algorithm] = trainer.evaluate(20).episode_return_mean
    assert found["ppo"] < 1.0 and found["ppo_es"] > 20.0
