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
    "evaluation": {"every_env_steps": 100_000, "episodes": 100},
    "stop": {"evaluation_return_mean": -200.0, "env_steps": 6_000_000},
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
