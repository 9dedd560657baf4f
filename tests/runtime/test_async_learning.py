"""The asynchronous gradients learn: in process and on Ray with two evaluators. While workers are killed they do, and
so do asynchronous samples."""

from __future__ import annotations

from typing import Any

import pytest
from support.losses import Losses, kill

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

#: Environment steps after which somebody is killed: the policy is being learnt by then, and is not learnt.
MID_RUN = 30_000

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


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("runtime", ["inline", "ray"])
@pytest.mark.parametrize("env", sorted(TASKS))
@pytest.mark.parametrize("algorithm", ["a3c", "a3c_ps"])
def test_it_learns(algorithm: str, env: str, runtime: str, seed: int) -> None:
    with Trainer(config(algorithm, env, runtime, seed)) as trainer:
        trainer.train()
        assert trainer.evaluate(100).episode_return_mean >= TASKS[env][1]


def victims(trainer: Trainer, worker: str) -> dict[int, Any]:
    """The workers of that kind, by place."""
    optimizer: Any = trainer.optimizers[0]
    return dict(trainer.evaluators.by_place if worker == "evaluator" else optimizer._shards.by_place)


@pytest.mark.parametrize("env", sorted(TASKS))
@pytest.mark.parametrize(
    ("algorithm", "worker"), [("a3c", "evaluator"), ("a3c_ps", "evaluator"), ("a3c_ps", "parameter shard")]
)
def test_it_is_learnt_though_somebody_is_killed_on_the_way(algorithm: str, worker: str, env: str) -> None:
    losses = Losses()
    with Trainer(config(algorithm, env, "ray", 1), hooks=[losses]) as trainer:
        row = trainer.step()
        while row["env_steps"] < MID_RUN:
            row = trainer.step()
        kill(victims(trainer, worker)[0])
        trainer.train()
        assert losses.told == [(worker, 0)]
        assert trainer.evaluate(100).episode_return_mean >= TASKS[env][1]


def test_cartpole_is_learnt_while_evaluators_and_shards_are_killed_in_turn() -> None:
    losses, killed = Losses(), 0
    settings = {**config("a3c_ps", "CartPole-v1", "ray", 1), "optimizer": {"shards": 2}}
    with Trainer(settings, hooks=[losses]) as trainer:
        row = trainer.step()
        while row["env_steps"] < TASKS["CartPole-v1"][0]:
            if row["env_steps"] >= (killed + 1) * KILL_EVERY:
                worker = ("evaluator", "parameter shard")[killed % 2]
                kill(victims(trainer, worker)[killed // 2 % 2])
                killed += 1
            row = trainer.step()
        assert trainer.evaluate(100).episode_return_mean >= TASKS["CartPole-v1"][1]
    assert [worker for worker, _ in losses.told] == [("evaluator", "parameter shard")[i % 2] for i in range(killed)]
    assert killed >= 8


def test_cartpole_is_learnt_by_impala_while_evaluators_and_the_learner_are_killed_in_turn() -> None:
    losses, killed = Losses(), 0
    with Trainer({**config("impala", "CartPole-v1", "ray", 1), "stop": {}}, hooks=[losses]) as trainer:
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
    assert [worker for worker, _ in losses.told] == ["evaluator", "learner"] * 2
