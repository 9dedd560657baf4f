"""Rounds that leave out the slowest, on a simulated cluster with stragglers and faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.runs import linear

from rlcore.trainer import Trainer
from rlcore.tree import flatten

pytest.importorskip("rlcore.runtime.sim")
pytest.importorskip("rlcore_sync")
pytest.importorskip("rlcore_gym")

LATE = 3
FAULTS = {"crash": 0.02, "answer": 0.01, "machine": 0.01, "request": 0.01, "hang": 0.005, "limit": 2}


def run(seed: int, optimizer: str, faults: bool) -> dict[str, Any]:
    """Five evaluators, of whose samples one in seven takes eight times as long."""
    simulated = {
        "name": "sim",
        "seed": seed,
        "costs": {"sample_counted": {"seconds": 10.0, "spread": 0.3}},
        "stragglers": {"probability": 0.15, "factor": 8.0},
        "rates": FAULTS if faults else {},
        "max_seconds": 1e6,
    }
    evaluators = {"count": 5, "envs": 1, "fragment": 6, "max_late_rounds": LATE}
    evaluators["sample_fraction"] = 0.8 if seed % 2 else 0.4
    if seed % 3 == 0:
        evaluators["sample_timeout_s"] = 15.0
    settings = {"optimizer.name": optimizer, "filter": "mean_std", "evaluators": evaluators}
    return {**linear(settings), "runtime": simulated}


@pytest.mark.parametrize("optimizer", ["multi_gpu", "allreduce"])
@pytest.mark.parametrize("faults", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_every_sample_is_used_and_none_is_too_old(seed: int, faults: bool, optimizer: str) -> None:
    with Trainer(run(seed, optimizer, faults)) as trainer:
        late = 0
        for _ in range(8):
            row = trainer.step()
            late += row["late_rows"]
            assert (row["late_staleness_mean"] or 0) <= LATE
        assert late > 0
        # What a replica that is lost takes with it is learnt from in part.
        assert faults or (row["learnt_rows"], row["dropped_rows"]) == (row["env_steps"], 0)
        states = trainer.evaluators.get_state()["evaluators"]
        assert sorted(states) == ["0", "1", "2", "3", "4"]
        if optimizer == "allreduce":
            _, expected = flatten(trainer.optimizers[0].graph_states()["default"])
            for state in states.values():
                for name, array in flatten(state["graphs"]["default"])[1].items():
                    np.testing.assert_array_equal(array, expected[name])
