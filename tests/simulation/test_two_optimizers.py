"""Two optimizers of one run share its evaluators on a cluster where things go wrong."""

from __future__ import annotations

import random
from typing import Any

import pytest
from support.runs import two_agents

from rlcore.errors import WorkerLost
from rlcore.hooks import hookimpl
from rlcore.trainer import Trainer

pytest.importorskip("rlcore_sync")


def settings(seed: int) -> dict[str, Any]:
    """A run on a faulty cluster."""
    draw = random.Random(seed)
    rates = {kind: draw.choice([0.0, 0.02]) for kind in ("crash", "machine", "hang", "request", "answer")}
    return {
        **two_agents({"evaluators.count": 3, "evaluators.envs": 2, "evaluators.fragment": 10, "stop.iteration": 5}),
        "runtime": {
            "name": "sim",
            "seed": seed,
            "costs": {"sample_counted": {"seconds": 0.1, "spread": 0.5}},
            "rates": {**rates, "limit": 3},
            "inline_bytes": draw.choice([0, 100_000]),
            "max_seconds": 1e5,
        },
    }


@pytest.mark.parametrize("seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 300))])
def test_every_sample_is_handed_to_both(seed: int) -> None:
    losses: list[int] = []

    class Losses:
        @hookimpl
        def worker_lost(self, index: int) -> None:
            losses.append(index)

    with Trainer(settings(seed), hooks=[Losses()]) as trainer:
        for iteration in range(1, 6):
            try:
                row = trainer.step()
            except WorkerLost as error:
                assert any("was replaced after this" in note for note in error.__notes__) and len(losses) >= 2
                return
            left, right = trainer.optimizers
            assert row["env_steps"] == (iteration * 3 - row["missing_samples"]) * 2 * 10
            assert left.reader.taken == right.reader.taken == iteration
            assert left.reader.unread == right.reader.unread == 0
        assert {trainer.evaluators.version} == {2 * 5}
