"""What the driver's process deserializes of its workers in a step: counted where Ray hands it over, byte by byte."""

from __future__ import annotations

from typing import Any

import pytest
from support.received import Received

from rlcore.trainer import Trainer

pytest.importorskip("rlcore_sync")
pytest.importorskip("rlcore_gym")
pytest.importorskip("rlcore_torch")

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.usefixtures("local_ray")]

EVALUATORS, ENVS, FRAGMENT = 2, 8, 200
ROWS = EVALUATORS * ENVS * FRAGMENT

#: Of a row: observation 16, action 8, reward 4, two flags, t 4, env_step 8, log-probability, value, advantage and
#: target 4 each; and the columns of the cuts, which are one for some twenty rows.
ROW_BYTES = 58

#: Of the two networks, float32: 4-256-256-2 and 4-256-256-1.
WEIGHTS_BYTES = 4 * (2 * (4 * 256 + 256 + 256 * 256 + 256) + 257 * 2 + 257)

#: All that may be said of samples, gradients and episodes in a step.
NEWS_BYTES = 8_000


def step(patch: pytest.MonkeyPatch, hidden: int, **optimizer: Any) -> tuple[list[int], int, dict[str, Any]]:
    """The sizes of what came in the second step, those of all weights, and its row."""
    config = {
        "algorithm": "a2c",
        "framework": "torch",
        "env": "CartPole-v1",
        "model": {"hidden": [hidden, hidden]},
        "optimizer": optimizer,
        "evaluators": {"count": EVALUATORS, "envs": ENVS, "fragment": FRAGMENT},
        "runtime": "ray",
        "seed": 3,
    }
    received = Received(patch)
    with Trainer(config) as trainer:
        trainer.step()
        received.objects.clear()
        row = trainer.step()
        weights = sum(array.nbytes for array in trainer.weights()["default"].values())
    return received.objects, weights, row


def test_multi_gpu_gets_each_sample_once_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, weights, row = step(monkeypatch, 256, name="multi_gpu", epochs=3, minibatch_size=800)
    assert row["updates"] == 2 * 3 * 4 and weights == WEIGHTS_BYTES
    samples = [size for size in sizes if size > NEWS_BYTES]
    assert len(samples) == EVALUATORS
    assert ROWS * ROW_BYTES < sum(samples) < ROWS * (ROW_BYTES + 4)
    assert sum(sizes) - sum(samples) < NEWS_BYTES


@pytest.mark.parametrize(("optimizer", "updates"), [({}, 1), ({"epochs": 2, "minibatch_size": 1600}, 4)])
def test_allreduce_gets_one_average_an_update_and_no_rows(
    optimizer: dict[str, Any], updates: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, weights, row = step(monkeypatch, 256, name="allreduce", **optimizer)
    assert row["updates"] == 2 * updates and weights == WEIGHTS_BYTES
    averages = [size for size in sizes if size > NEWS_BYTES]
    assert len(averages) == updates
    assert all(weights < size < weights + 2_000 for size in averages)
    assert sum(sizes) - sum(averages) < NEWS_BYTES


def test_apex_gets_no_samples_minibatches_weights_nor_states(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rlcore_apex")
    config = {
        "algorithm": "apex_dqn",
        "framework": "torch",
        "env": "CartPole-v1",
        "model": {"hidden": [256, 256]},
        "evaluators": {"count": EVALUATORS, "envs": 4, "fragment": 50},
        "optimizer": {
            "name": "apex",
            "capacity": 10_000,
            "learning_starts": 400,
            "minibatch_size": 512,
            "learnt_per_sampled": 32.0,
            "max_weight_delay": 100,
            "snapshot_every": 5,
        },
        "runtime": "ray",
        "seed": 3,
    }
    received = Received(monkeypatch)
    with Trainer(config) as trainer:
        for _ in range(3):
            trainer.step()
        received.objects.clear()
        before = trainer.row["updates"]
        row = trainer.step()
        sizes = list(received.objects)
        # Of the weights, their targets and the moments of Adam.
        assert row["updates"] > before + 20 and trainer.evaluators.version > 3
        assert sizes and max(sizes) < NEWS_BYTES
