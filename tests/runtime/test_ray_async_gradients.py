"""Gradients as they come, on Ray: whoever is killed, training goes on; with shards no bulk comes into the driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.losses import Losses, kill
from support.received import Received

from rlcore.trainer import Trainer

pytest.importorskip("rlcore_async")
pytest.importorskip("rlcore_gym")
pytest.importorskip("rlcore_torch")

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.usefixtures("local_ray")]

CONFIG: dict[str, Any] = {
    "framework": "torch",
    "env": "CartPole-v1",
    "seed": 1,
    "runtime": "ray",
    "evaluators": {"count": 2, "envs": 2, "fragment": 8},
}
SHARDS = {"shards": 3, "snapshot_every": 10}

#: Of what is said of a sample in a step, whatever the size of the networks.
NEWS_BYTES = 2_500


@pytest.fixture
def losses() -> Losses:
    return Losses()


@pytest.fixture(params=["a3c", "a3c_ps"])
def trainer(request: pytest.FixtureRequest, losses: Losses) -> Iterator[Trainer]:
    own = SHARDS if request.param == "a3c_ps" else {}
    with Trainer({**CONFIG, "algorithm": request.param, "optimizer": own}, hooks=[losses]) as trainer:
        for _ in range(4):
            trainer.step()
        yield trainer


def test_an_evaluator_that_is_killed_is_replaced_and_its_task_counts_as_dropped(
    trainer: Trainer, losses: Losses
) -> None:
    before = trainer.row
    kill(trainer.evaluators.by_place[0])
    for _ in range(12):
        row = trainer.step()
    assert losses.told == [("evaluator", 0)]
    assert row["updates"] > before["updates"] + 100
    assert row["dropped_rows"] == 16


@pytest.mark.parametrize("trainer", ["a3c_ps"], indirect=True)
def test_a_shard_that_is_killed_goes_on_from_its_snapshot(trainer: Trainer, losses: Losses) -> None:
    optimizer: Any = trainer.optimizers[0]
    before = trainer.row
    kill(optimizer._shards.by_place[1])
    for _ in range(12):
        row = trainer.step()
    assert losses.told == [("parameter shard", 1)]
    assert row["updates"] > before["updates"] + 100
    steps = [own["default"]["rule"]["step"] for own in optimizer._shards.ask("get_state").values()]
    # No more than since its last snapshot, and what was on its way.
    assert steps[0] == steps[2] == row["updates"] and 1 <= steps[0] - steps[1] <= 2 * 10 + 6


def received(patch: pytest.MonkeyPatch, algorithm: str, hidden: int) -> tuple[list[int], int]:
    """The bytes of each object that the driver deserialised in one step, and those of all weights."""
    config = {
        **CONFIG,
        "algorithm": algorithm,
        "model": {"hidden": [hidden, hidden]},
        # Snapshots stay where they are as well.
        "optimizer": {"rounds": 10, **(SHARDS if algorithm == "a3c_ps" else {})},
    }
    found = Received(patch)
    with Trainer(config) as trainer:
        trainer.step()
        found.objects.clear()
        trainer.step()
        objects = list(found.objects)
        return objects, sum(array.nbytes for array in trainer.weights()["default"].values())


@pytest.mark.parametrize("hidden", [16, 256])
def test_with_shards_the_driver_reads_nothing_but_news(monkeypatch: pytest.MonkeyPatch, hidden: int) -> None:
    objects, _ = received(monkeypatch, "a3c_ps", hidden)
    assert len(objects) >= 20 and max(objects) < NEWS_BYTES


def test_without_shards_the_driver_reads_every_gradient_once(monkeypatch: pytest.MonkeyPatch) -> None:
    objects, weights = received(monkeypatch, "a3c", 256)
    gradients = [size for size in objects if size > NEWS_BYTES]
    assert 20 <= len(gradients) <= 23
    assert all(weights < size < weights + 2_000 for size in gradients)
