"""Allreduce with replicas that are lost: the others go on, and the new ones are what the others are."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.faulty import HANG, LOSE, FaultyRuntime, Plan

from rlcore.crew import LOOK_S
from rlcore.errors import WorkerLost
from rlcore.evaluator_set import EvaluatorSet
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.runtime.inline import InlineRef, InlineRuntime
from rlcore.sampling.collect import Fragment
from rlcore.testing import LinearPG
from rlcore.tree import flatten

rlcore_sync = pytest.importorskip("rlcore_sync")
pytest.importorskip("rlcore_gym")

ROWS = 2 * 16


def evaluator(index: int) -> PolicyEvaluator:
    return PolicyEvaluator(
        env="CartPole-v1",
        graph=LinearPG,
        config={"learning_rate": 0.05},
        num_envs=2,
        collect=Fragment(16),
        rng=np.random.SeedSequence(5, spawn_key=(index,)),
        index=index,
    )


def allreduce(runtime: InlineRuntime, count: int = 3) -> Any:
    spec = evaluator(0).graph_spec("default")

    def build(index: int) -> PolicyEvaluator:
        own = evaluator(index)
        own._specs["default"] = spec
        return own

    local = build(0)
    evaluators = EvaluatorSet(runtime, local, [functools.partial(build, i) for i in range(count)], timeout_s=5.0)
    config = rlcore_sync.AllReduce.Config(epochs=2, minibatch_size=16)
    return rlcore_sync.AllReduce(local, evaluators, runtime, config, ("default",))


def assert_replicas_are_equal(optimizer: Any) -> None:
    """Weights, optimizer states and schedules of every evaluator are those of the driver's."""
    expected, arrays = flatten(optimizer.graph_states()["default"])
    for handle in optimizer.evaluators.handles:
        document, own = flatten(handle._worker.graph("default").get_state())
        assert document == expected
        for name, array in arrays.items():
            np.testing.assert_array_equal(own[name], array)


def test_without_losses_it_is_as_inline() -> None:
    one, other = allreduce(FaultyRuntime({})), allreduce(InlineRuntime())
    for _ in range(2):
        assert (one.step().stats, one.step().learnt_rows) == (other.step().stats, other.step().learnt_rows)
    for name, array in one.get_weights()["default"].items():
        np.testing.assert_array_equal(array, other.get_weights()["default"][name])


@pytest.mark.parametrize(
    ("plan", "updates", "dropped"),
    [
        # Six updates an epoch, two epochs: in the fourth the sample of one goes, of which half was learnt by then.
        ({(1, "gradients_apart", 3): LOSE}, 12, ROWS),
        ({(1, "gradients_apart", 3): HANG}, 12, ROWS),
        ({(1, "apply_finite", 3): LOSE}, 12, ROWS),
        ({(2, "receive", 0): LOSE}, 12, 0),
        ({(2, "on_progress", 0): LOSE}, 12, ROWS),
        ({(number, "gradients_apart", 3): LOSE for number in range(3)}, 12, 3 * ROWS),
        # One that takes the place of another is lost as well, when it catches up.
        ({(1, "gradients_apart", 3): LOSE, (3, "set_graph_states", 1): LOSE}, 12, ROWS),
    ],
)
def test_a_step_goes_on_with_another_sample_where_one_is_lost(plan: Plan, updates: int, dropped: int) -> None:
    optimizer = allreduce(FaultyRuntime(plan))
    results = []
    for _ in range(3):
        results.append(optimizer.step())
        # Whoever is lost unseen is replaced when it is next asked.
        optimizer.evaluators.get_state()
        assert_replicas_are_equal(optimizer)
    assert [result.env_steps for result in results] == [3 * ROWS] * 3
    assert (results[0].updates, results[0].dropped_rows) == (updates, dropped)
    assert [(result.updates, result.dropped_rows) for result in results[1:]] == [(12, 0)] * 2
    # The batch has the size that was asked for in every update.
    assert [result.learnt_rows for result in results] == [2 * 3 * ROWS] * 3
    assert optimizer.evaluators.env_steps == 3 * 3 * ROWS


def test_an_average_that_is_lost_is_made_again_without_whom_it_was_lost_with() -> None:
    class LosesAverages(FaultyRuntime):
        averages = 0

        def reduce(self, refs: Sequence[InlineRef], counts: Sequence[Any]) -> InlineRef:
            self.averages += 1
            if self.averages == 3:
                self.spawned[0].stop()
                return InlineRef(error=WorkerLost(self.spawned[0], "it was killed"))
            return super().reduce(refs, counts)

    optimizer = allreduce(LosesAverages({}))
    result = optimizer.step()
    assert (result.updates, result.dropped_rows) == (12, ROWS)
    assert_replicas_are_equal(optimizer)


def test_what_a_graph_raises_ends_the_run_at_once_and_replaces_nobody() -> None:
    broken = {(1, "gradients_apart", 3): ZeroDivisionError("in the loss"), (0, "gradients_apart", 3): HANG}
    runtime = FaultyRuntime(broken)
    optimizer = allreduce(runtime)
    with pytest.raises(ZeroDivisionError, match="in the loss"):
        optimizer.step()
    assert len(runtime.spawned) == 3 and runtime.time <= LOOK_S
