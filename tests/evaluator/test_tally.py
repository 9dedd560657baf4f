"""Figures of a step: each policy's are means over its own rows, whatever the others have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.simulated import evaluator

from rlcore.batch import MultiAgentBatch
from rlcore.learner import Learner
from rlcore.learner_actor import LearnerReport
from rlcore.learner_tally import LearnerTally
from rlcore.learnt import Learnt
from rlcore.minibatches import learn_in_epochs
from rlcore.policy_optimizer import MeanStats


def stats(**by_policy: tuple[float, float]) -> MeanStats:
    """``(rows, loss)`` of each policy."""
    found = MeanStats()
    for policy_id, (rows, loss) in by_policy.items():
        found.add(policy_id, {"loss": loss}, rows)
    return found


def test_a_policy_with_more_rows_in_a_batch_weighs_more_in_its_own_mean() -> None:
    tally = LearnerTally(["a", "b"])
    tally.learnt(LearnerReport(Learnt(32, 2, 0, stats(a=(30, 1.0), b=(2, 5.0))), 0.1, 0.0))
    tally.learnt(LearnerReport(Learnt(18, 2, 0, stats(a=(10, 3.0), b=(8, 10.0))), 0.2, 0.1))
    tally.learnt(LearnerReport(Learnt(4, 1, 0, stats(b=(4, 2.0))), 0.2, 0.1))
    result = tally.result(1.0)
    assert result.stats["a"]["loss"] == pytest.approx((30 * 1.0 + 10 * 3.0) / 40)
    assert result.stats["b"]["loss"] == pytest.approx((2 * 5.0 + 8 * 10.0 + 4 * 2.0) / 14)
    assert (result.learnt_rows, result.updates, result.timers["learn_s"]) == (54, 5, pytest.approx(0.5))


def test_means_of_means_are_those_of_all_of_them() -> None:
    one, two, both = MeanStats(), MeanStats(), MeanStats()
    for i, (policy_id, rows) in enumerate([("a", 3), ("b", 1), ("a", 5), ("b", 0), ("a", 2)]):
        for found in ((one, two)[i % 2], both):
            found.add(policy_id, {"loss": float(i), f"only_{i}": 1.0}, rows)
    one.merge(two)
    assert one.mean()["a"]["loss"] == pytest.approx((3 * 0 + 5 * 2 + 2 * 4) / 10)
    assert one.mean() == {name: pytest.approx(own) for name, own in both.mean().items()}
    # What is of no rows says nothing.
    assert "only_3" not in one.mean()["b"] and one.mean()["b"]["loss"] == 1.0


@pytest.mark.parametrize("size", [0, 3, 5, 7])
def test_minibatches_weigh_as_much_as_they_have_rows(size: int) -> None:
    local: Any = evaluator(0)
    batch = local.sample()
    learner = Learner({"default": local.graph_spec("default")})
    learnt = learn_in_epochs(
        learner, MultiAgentBatch.of(batch), 2, size, np.random.default_rng(1), devices=1
    )
    assert learnt.rows == 2 * len(batch)
    assert learnt.stats.mean()["default"]["loss"] == pytest.approx(float(batch["obs"].mean()), rel=1e-6)


def test_updates_are_counted_as_they_are_made() -> None:
    learnt = Learnt()
    learnt.note("a", {"loss": 1.0}, 30, skipped=False)
    learnt.note("a", {"loss": 4.0}, 10, skipped=False)
    learnt.note("b", {"loss": 2.0}, 5, skipped=True)
    result = learnt.result(20, {"learn_s": 0.5}, dropped_rows=3)
    assert (result.env_steps, result.learnt_rows, result.updates, result.skipped_updates) == (20, 45, 2, 1)
    assert (result.dropped_rows, result.timers) == (3, {"learn_s": 0.5})
    assert result.stats == {"a": {"loss": 1.75}, "b": {"loss": 2.0}}
