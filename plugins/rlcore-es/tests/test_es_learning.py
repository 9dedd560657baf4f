"""The recipe es learns: inline, and on Ray with two evaluators."""

from __future__ import annotations

import pytest

from rlcore.trainer import Trainer

pytest.importorskip("rlcore_torch")
pytest.importorskip("rlcore_batched")

pytestmark = [pytest.mark.learning, pytest.mark.xdist_group("ray")]

#: Environment steps at the most, the mean return of a hundred episodes at which training stops, and what is to be
#: reached by a hundred episodes afterwards: Pendulum's differ by some twenty from one hundred to the next.
TASKS = {
    "CartPole-v1": (3_000_000, 475.0, 475.0),
    "Pendulum-v1": (4_000_000, -220.0, -250.0),
    "batched:cartpole": (3_000_000, 475.0, 475.0),
}


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("runtime", ["inline", "ray"])
@pytest.mark.parametrize("env", sorted(TASKS))
def test_it_learns(env: str, runtime: str, seed: int) -> None:
    env_steps, stop, goal = TASKS[env]
    config = {
        "algorithm": "es",
        "framework": "torch",
        "env": env,
        "evaluators": {"count": 2},
        "runtime": runtime,
        "seed": seed,
        "stop": {"episode_return_mean": stop, "env_steps": env_steps},
    }
    with Trainer(config) as trainer:
        assert trainer.train()["episode_return_mean"] >= stop
        assert trainer.evaluate(100).episode_return_mean >= goal
