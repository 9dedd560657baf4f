"""Who explores how much, and whose returns count."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from rlcore.evaluator_set import EvaluatorSet
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.runtime.inline import InlineRuntime
from rlcore.sampling.collect import Fragment
from rlcore.testing.environments import Count
from rlcore.testing.linear_q import LinearQ
from rlcore_apex import Apex
from rlcore_apex.exploration import ladder, least_exploring

SETTINGS = {"learning_starts": 8, "minibatch_size": 8, "capacity": 512, "rounds": 1, "learnt_per_sampled": 1.0}


def test_the_ladder_of_the_paper() -> None:
    np.testing.assert_allclose(ladder(3, 0.4, 7.0), [0.4, 0.4**4.5, 0.4**8])
    np.testing.assert_allclose(ladder(8, 0.4, 7.0), 0.4 ** np.arange(1.0, 9.0))
    assert ladder(1, 0.4, 7.0).tolist() == [0.4]


@pytest.mark.parametrize(("count", "chosen"), [(1, [0]), (2, [1]), (3, [2]), (4, [2, 3]), (9, [6, 7, 8])])
def test_the_least_exploring_third_counts(count: int, chosen: list[int]) -> None:
    assert np.flatnonzero(least_exploring(ladder(count, 0.4, 7.0))).tolist() == chosen


def test_where_all_explore_alike_all_count() -> None:
    assert least_exploring(np.full(6, 0.1)).all()


def evaluator(index: int, graph: Any = LinearQ) -> PolicyEvaluator:
    return PolicyEvaluator(
        env=lambda num_envs: Count(num_envs, 3), graph=graph, num_envs=2, collect=Fragment(4), rng=index, index=index
    )


def test_every_environment_gets_a_rung_and_the_least_exploring_stand_for_the_run() -> None:
    runtime = InlineRuntime()
    own = EvaluatorSet(runtime, evaluator(0), [functools.partial(evaluator, i) for i in range(3)])
    optimizer = Apex(own.local, own, runtime, Apex.Config(**SETTINGS), ("default",))
    optimizer.step()
    rungs = [handle._worker.policies["default"]._actor._epsilon.tolist() for handle in own.handles]
    np.testing.assert_allclose(np.ravel(rungs), 0.4 ** (1.0 + 7.0 * np.arange(6) / 5))
    assert optimizer.representative == {0: set(), 1: set(), 2: {0, 1}}


def test_policies_that_explore_by_themselves_have_no_ladder() -> None:
    class Stochastic(LinearQ):
        exploration_utility = None

    runtime = InlineRuntime()
    own = EvaluatorSet(runtime, evaluator(0, Stochastic))
    optimizer = Apex(own.local, own, runtime, Apex.Config(**SETTINGS), ("default",))
    optimizer.step()
    assert optimizer.representative is None
