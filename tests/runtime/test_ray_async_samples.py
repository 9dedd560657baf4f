"""``async_samples`` on Ray: whoever of it is killed, training goes on; what travels does so by reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.losses import Losses

from rlcore.trainer import Trainer

pytest.importorskip("rlcore_async")
pytest.importorskip("rlcore_gym")
pytest.importorskip("rlcore_torch")

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.usefixtures("local_ray")]

CONFIG: dict[str, Any] = {
    "algorithm": "impala",
    "framework": "torch",
    "env": "CartPole-v1",
    "seed": 1,
    "runtime": "ray",
    "evaluators": {"count": 2, "envs": 2, "fragment": 8},
    "optimizer": {
        "name": "async_samples",
        "batch_size": 32,
        "aggregators": 1,
        "replay_share": 0.25,
        "snapshot_every": 20,
        "rounds": 10,
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


@pytest.mark.parametrize("worker", ["evaluator", "learner", "aggregator"])
def test_whoever_is_killed_is_replaced_and_training_goes_on(trainer: Trainer, losses: Losses, worker: str) -> None:
    optimizer: Any = trainer.optimizers[0]
    crew = {
        "evaluator": trainer.evaluators._crew,
        "learner": optimizer._learner.crew,
        "aggregator": optimizer._aggregation._calls._crew,
    }[worker]
    before = trainer.row
    optimizer.runtime.kill(crew.handles[0])
    for _ in range(12):
        row = trainer.step()
    assert losses.told == [(worker, 0)]
    assert row["updates"] > before["updates"] + 80
    # Evaluators go on with new weights.
    assert trainer.evaluators.version > 20
    assert row["staleness_max"] >= row["staleness_mean"] >= 0.0


def test_a_run_goes_on_from_its_checkpoint(tmp_path: Any) -> None:
    with Trainer(CONFIG) as trainer:
        row = trainer.step()
        trainer.save(tmp_path / "saved")
    # There is room for the evaluators of one run only.
    with Trainer.restore(tmp_path / "saved") as again:
        after = again.step()
    assert after["iteration"] == row["iteration"] + 1
    assert after["env_steps"] > row["env_steps"] and after["updates"] > row["updates"]
