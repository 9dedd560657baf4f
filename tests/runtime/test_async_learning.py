"""The asynchronous gradients learn: in process and on Ray with two evaluators. While workers are killed they do, and
so do asynchronous samples."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from rlcore.runtime.ray.handles import RayHandle
from rlcore.trainer import Trainer

pytest.importorskip("rlcore_async")
pytest.importorskip("rlcore_gym")
pytest.importorskip("rlcore_torch")

pytestmark = [
    pytest.mark.learning,
    pytest.mark.xdist_group("ray"),
    pytest.mark.usefixtures("local_ray"),
]

#: Environment steps, and what the mean return of a hundred episodes is to be after them.
TASKS = {"CartPole-v1": (150_000, 475), "Acrobot-v1": (200_000, -100)}

#: Environment steps between two kills.
KILL_EVERY = 15_000


def config(algorithm: str, env: str, runtime: str, seed: int) -> dict[str, Any]:
    return {
        "algorithm": algorithm,
        "framework": "torch",
        "env": env,
        "evaluators": {"count": 2},
        "runtime": runtime,
        "seed": seed,
        "stop": {"env_steps": TASKS[env][0]},
    }


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("runtime", ["inline", "ray"])
@pytest.mark.parametrize("env", sorted(TASKS))
@pytest.mark.parametrize("algorithm", ["a3c", "a3c_ps"])
def test_it_learns(algorithm: str, env: str, runtime: str, seed: int) -> None:
    with Trainer(config(algorithm, env, runtime, seed)) as trainer:
        trainer.train()
        assert trainer.evaluate(100).episode_return_mean >= TASKS[env][1]


class Lost:
    """A hook that notes who was lost."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def worker_lost(self, worker: str) -> None:
        self.told.append(worker)


def kill(handle: RayHandle) -> None:
    """Ends the worker's process, as the system would for want of memory."""
    import ray

    os.kill(ray.get(handle.actor.__ray_call__.remote(lambda own: os.getpid())), signal.SIGKILL)


def test_cartpole_is_learnt_while_evaluators_and_shards_are_killed_in_turn() -> None:
    lost, killed = Lost(), 0
    settings = {**config("a3c_ps", "CartPole-v1", "ray", 1), "optimizer": {"shards": 2}}
    with Trainer(settings, hooks=[lost]) as trainer:
        shards: Any = trainer.optimizers[0]
        row = trainer.step()
        while row["env_steps"] < TASKS["CartPole-v1"][0]:
            if row["env_steps"] >= (killed + 1) * KILL_EVERY:
                victims = trainer.evaluators.by_place if killed % 2 == 0 else shards._shards.by_place
                kill(victims[killed // 2 % 2])
                killed += 1
            row = trainer.step()
        assert trainer.evaluate(100).episode_return_mean >= TASKS["CartPole-v1"][1]
    assert lost.told == [("evaluator", "parameter shard")[i % 2] for i in range(killed)] and killed >= 8


def test_cartpole_is_learnt_by_impala_while_evaluators_and_the_learner_are_killed_in_turn() -> None:
    lost, killed = Lost(), 0
    with Trainer({**config("impala", "CartPole-v1", "ray", 1), "stop": {}}, hooks=[lost]) as trainer:
        optimizer: Any = trainer.optimizers[0]
        row = trainer.step()
        while row["env_steps"] < 200_000:
            # The last quarter is undisturbed, as is the time in which the policy is near its best.
            if killed < 4 and row["env_steps"] >= (killed + 1) * 2 * KILL_EVERY:
                crew = optimizer._learner.crew if killed % 2 else trainer.evaluators
                kill(crew.by_place[0])
                killed += 1
            row = trainer.step()
        assert trainer.evaluate(100).episode_return_mean >= TASKS["CartPole-v1"][1]
    assert lost.told == ["evaluator", "learner"] * 2
