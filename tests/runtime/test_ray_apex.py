"""Ape-X on Ray: whoever of it is killed, training goes on; bulk data does not pass through the driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.losses import Losses

from rlcore.trainer import Trainer

pytest.importorskip("rlcore_apex")
pytest.importorskip("rlcore_gym")
pytest.importorskip("rlcore_torch")

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.usefixtures("local_ray")]

CONFIG: dict[str, Any] = {
    "algorithm": "apex_dqn",
    "framework": "torch",
    "env": "CartPole-v1",
    "seed": 1,
    "runtime": "ray",
    "evaluators": {"count": 2, "envs": 2, "fragment": 8},
    "optimizer": {
        "name": "apex",
        "capacity": 10_000,
        "learning_starts": 100,
        "minibatch_size": 32,
        "learnt_per_sampled": 4.0,
        "replay_actors": 2,
        "max_weight_delay": 32,
        "snapshot_every": 20,
        "rounds": 4,
    },
}


@pytest.fixture
def losses() -> Losses:
    return Losses()


@pytest.fixture
def trainer(losses: Losses) -> Iterator[Trainer]:
    with Trainer(CONFIG, hooks=[losses]) as trainer:
        for _ in range(6):
            trainer.step()
        yield trainer


@pytest.mark.parametrize("worker", ["evaluator", "learner", "replay actor"])
def test_whoever_is_killed_is_replaced_and_training_goes_on(trainer: Trainer, losses: Losses, worker: str) -> None:
    optimizer: Any = trainer.optimizers[0]
    crew = {
        "evaluator": trainer.evaluators._crew,
        "learner": optimizer._learner.crew,
        "replay actor": optimizer._replay,
    }[worker]
    before = trainer.row
    optimizer.runtime.kill(crew.handles[0])
    for _ in range(12):
        row = trainer.step()
    assert losses.told == [(worker, 0)]
    assert row["updates"] > before["updates"] + 100
    assert (row["dropped_rows"] > 0) == (worker != "evaluator")
    # Evaluators go on with new weights.
    assert trainer.evaluators.version > 5
