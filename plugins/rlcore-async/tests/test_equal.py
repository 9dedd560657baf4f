"""However many shards there are, and without any: the same weights; and going on from a state is exact in process."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from rlcore.evaluator_set import EvaluatorSet
from rlcore.optim import SGD, RMSProp, UpdateRule
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_optimizer import PolicyOptimizer
from rlcore.runtime.inline import InlineRuntime
from rlcore.sampling.collect import Fragment
from rlcore.sampling.filters import MeanStd
from rlcore.testing.environments.contexts import Contexts
from rlcore.testing.linear import LinearPG
from rlcore_async import AsyncGradients, ShardedPS

#: Gradients are clipped, and the learning rate goes down, as steps are sampled.
SETTINGS: dict[str, Any] = {"max_grad_norm": 0.05, "learning_rate": [[0, 1e-2], [2000, 1e-3]]}


def evaluator(index: int, graph: Any = LinearPG, config: Any = SETTINGS) -> PolicyEvaluator:
    return PolicyEvaluator(
        env=Contexts,
        graph=graph,
        config=config,
        num_envs=4,
        collect=Fragment(16),
        rng=np.random.SeedSequence(1, spawn_key=(index,)),
        index=index,
        observation_filter=MeanStd,
    )


def made(kind: type[PolicyOptimizer], count: int = 2, make: Any = evaluator, **settings: Any) -> PolicyOptimizer:
    runtime = InlineRuntime()
    own = EvaluatorSet(runtime, make(0), [functools.partial(make, i) for i in range(count)])
    return kind(own.local, own, runtime, kind.Config(rounds=3, **settings), ("default",))


def weights(optimizer: PolicyOptimizer) -> np.ndarray:
    own = optimizer.get_weights()["default"]
    return np.concatenate([own[name].ravel() for name in sorted(own)])


class WithSGD(LinearPG):
    """Learns by gradient descent with momentum."""

    def update_rule(self) -> UpdateRule:
        return SGD(10 * super().update_rule().learning_rate, self.config.max_grad_norm, momentum=0.9)


class WithRMSProp(LinearPG):
    """Learns by RMSProp with momentum."""

    def update_rule(self) -> UpdateRule:
        return RMSProp(super().update_rule().learning_rate, self.config.max_grad_norm, momentum=0.5)


#: ``LinearPG`` itself learns by Adam.
GRAPHS = [LinearPG, WithSGD, WithRMSProp]


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("max_grad_norm", [None, 0.05])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_number_of_shards_changes_no_bit(count: int, max_grad_norm: float | None, graph: type[LinearPG]) -> None:
    found, make = [], functools.partial(evaluator, graph=graph, config={**SETTINGS, "max_grad_norm": max_grad_norm})
    for shards in (1, 2, 3, 8, 50):
        optimizer = made(ShardedPS, count, make, shards=shards, snapshot_every=2)
        results = [optimizer.step() for _ in range(4)]
        found.append((weights(optimizer).tobytes(), [(one.updates, one.stats) for one in results]))
    assert all(other == found[0] for other in found[1:])


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("max_grad_norm", [None, 0.05])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_shards_do_what_the_driver_would(count: int, max_grad_norm: float | None, graph: type[LinearPG]) -> None:
    make = functools.partial(evaluator, graph=graph, config={**SETTINGS, "max_grad_norm": max_grad_norm})
    one, other = made(AsyncGradients, count, make), made(ShardedPS, count, make, shards=3)
    start = weights(one)
    for _ in range(4):
        first, second = one.step(), other.step()
        assert (first.env_steps, first.updates, first.learnt_rows) == (
            second.env_steps,
            second.updates,
            second.learnt_rows,
        )
        assert first.stats["default"]["staleness_max"] == second.stats["default"]["staleness_max"]
    np.testing.assert_allclose(weights(one), weights(other), rtol=0, atol=1e-6)
    assert np.abs(weights(one) - start).max() > 1e-2


@pytest.mark.parametrize("kind", [AsyncGradients, ShardedPS])
@pytest.mark.parametrize("count", [0, 2])
def test_going_on_from_a_state_is_exact(kind: type[PolicyOptimizer], count: int) -> None:
    one, other = made(kind, count), made(kind, count)
    for _ in range(3):
        one.step()
    state = {"optimizer": one.get_state(), "evaluators": one.evaluators.get_state()}
    other.set_state(state["optimizer"])
    other.evaluators.set_state(state["evaluators"])
    for _ in range(3):
        first, second = one.step(), other.step()
        assert first.stats == second.stats and first.env_steps == second.env_steps
    assert weights(one).tobytes() == weights(other).tobytes()


def test_a_state_goes_from_one_to_the_other_and_to_another_number_of_shards() -> None:
    one = made(AsyncGradients)
    one.step()
    for other in (made(ShardedPS, shards=2), made(ShardedPS, shards=5)):
        other.set_state(one.get_state())
        assert weights(other).tobytes() == weights(one).tobytes()
        again = other.get_state()["graphs"]["default"]["optimizer"]
        for slot, known in one.get_state()["graphs"]["default"]["optimizer"].items():
            assert again[slot] == known if slot == "step" else all((again[slot][n] == known[n]).all() for n in known)


def test_evaluators_get_the_weights_of_the_shards() -> None:
    optimizer = made(ShardedPS, 1, shards=3)
    optimizer.step()
    (handle,) = optimizer.evaluators.handles
    got = handle._worker.get_weights()["default"]
    assert all((got[name] == own).all() for name, own in optimizer.get_weights()["default"].items())
    assert handle._worker.graph("default").config.max_grad_norm == 0.05


@pytest.mark.parametrize(("before", "after"), [(a, b) for a in GRAPHS for b in GRAPHS if a is not b])
def test_what_another_rule_remembers_is_not_taken_over(before: type[LinearPG], after: type[LinearPG]) -> None:
    one = made(AsyncGradients, 1, functools.partial(evaluator, graph=before))
    one.step()
    state = one.get_state()
    for kind in (AsyncGradients, ShardedPS):
        other = made(kind, 1, functools.partial(evaluator, graph=after))
        other.set_state(state)
        memory = other.get_state()["graphs"]["default"]["optimizer"]
        assert memory.pop("step") == 0 and all((own == 0).all() for slot in memory.values() for own in slot.values())
        assert weights(other).tobytes() == weights(one).tobytes()
