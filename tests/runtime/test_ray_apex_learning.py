"""On Ray, with two evaluators and two replay actors, Ape-X learns; also when one of its processes is killed on the way.
"""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from support.losses import Losses
from support.processes import own_pid

from rlcore.trainer import Trainer

pytest.importorskip("rlcore_apex")
pytest.importorskip("rlcore_gym")
pytest.importorskip("rlcore_torch")

pytestmark = [pytest.mark.learning, pytest.mark.xdist_group("ray"), pytest.mark.usefixtures("local_ray")]

#: Environment steps after which the policy is evaluated, and what the mean of a hundred episodes has to be.
TASKS = {"apex_dqn": ("CartPole-v1", 100_000, 475.0), "apex_ddpg": ("Pendulum-v1", 25_000, -180.0)}

#: What workers are called on Ray, by what losses call them.
NAMES = {"evaluator": "EvaluatorMaker.sampler(0", "learner": "ApexLearner(", "replay actor": "ReplayActor("}

#: Environment steps after which somebody is killed: the policy is being learnt by then, and is not learnt.
MID_RUN = {"apex_dqn": 10_000, "apex_ddpg": 4000}


def config(algorithm: str, seed: int) -> dict[str, Any]:
    env, env_steps, _ = TASKS[algorithm]
    return {
        "algorithm": algorithm,
        "framework": "torch",
        "env": env,
        "evaluators": {"count": 2},
        "optimizer": {"name": "apex", "replay_actors": 2},
        "runtime": "ray",
        "seed": seed,
        "stop": {"env_steps": env_steps},
    }


def process(trainer: Trainer, worker: str) -> int:
    """That of the first worker of the kind. It answers when it has done all that it was asked before."""
    import ray

    runtime: Any = trainer.optimizers[0].runtime
    handle = next(handle for handle in runtime._handles if handle.name.startswith(NAMES[worker]))
    pid: int = ray.get(handle.actor.__ray_call__.remote(own_pid))
    return pid


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("algorithm", sorted(TASKS))
def test_the_policy_at_the_end_of_the_run_is_a_good_one(algorithm: str, seed: int) -> None:
    with Trainer(config(algorithm, seed)) as trainer:
        result = trainer.train()
        assert result["dropped_rows"] == 0
        assert trainer.evaluate(100).episode_return_mean >= TASKS[algorithm][2]


@pytest.mark.parametrize("worker", sorted(NAMES))
@pytest.mark.parametrize("algorithm", sorted(TASKS))
def test_it_is_learnt_though_somebody_is_killed_on_the_way(algorithm: str, worker: str) -> None:
    losses = Losses()
    with Trainer(config(algorithm, 1), hooks=[losses]) as trainer:
        row = trainer.step()
        pid = process(trainer, worker)
        while row["env_steps"] < MID_RUN[algorithm]:
            row = trainer.step()
        assert row["updates"] > 0
        # At work, by a signal that it cannot know of.
        os.kill(pid, signal.SIGKILL)
        result = trainer.train()
        assert losses.told == [(worker, 0)]
        assert (result["dropped_rows"] > 0) == (worker != "evaluator")
        assert trainer.evaluate(100).episode_return_mean >= TASKS[algorithm][2]
