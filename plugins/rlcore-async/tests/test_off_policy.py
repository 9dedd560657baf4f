"""Policy graphs with targets, and whose losses draw: copies of them compute the gradients that one graph would."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from rlcore.errors import OptimizerError
from rlcore.evaluator_set import EvaluatorSet
from rlcore.learning.off_policy import OffPolicyRules
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_optimizer import PolicyOptimizer
from rlcore.runtime.inline import InlineRuntime
from rlcore.sampling.collect import Fragment
from rlcore.testing.environments.contexts import Contexts
from rlcore.testing.linear import LinearPG
from rlcore.testing.linear_q import LinearQ
from rlcore_async import AsyncGradients, ShardedPS

rlcore_torch = pytest.importorskip("rlcore_torch")

SMALL = {"model": {"hidden": [8]}}
LINEAR_Q = (LinearQ, {"target_every": 100}, False)
DQN = (rlcore_torch.DQN, {**SMALL, "target_update_every": 100, "learning_rate": 1e-2}, False)
NOISY = (rlcore_torch.DQN, {**SMALL, "noisy": 0.5, "tau": 0.05, "learning_rate": 1e-2}, False)
DDPG = (rlcore_torch.DDPG, {**SMALL, "tau": 0.05, "target_noise": 0.2}, True)
DELAYED = (rlcore_torch.DDPG, {**SMALL, "policy_delay": 3}, True)
TD3 = (rlcore_torch.TD3, {**SMALL, "tau": 0.05}, True)
SAC = (rlcore_torch.SAC, {**SMALL, "tau": 0.05, "learning_rate": 1e-2}, True)
#: Which shards can apply, and which no one update rule moves.
ALIKE, APART = [LINEAR_Q, DQN, NOISY, DDPG, SAC], [DELAYED, TD3]

Case = tuple[Any, Mapping[str, Any], bool]


def evaluator(index: int, case: Case) -> PolicyEvaluator:
    graph, config, continuous = case
    return PolicyEvaluator(
        env=Contexts,
        env_settings={"continuous": continuous},
        graph=graph,
        config=config,
        num_envs=4,
        collect=Fragment(8),
        rng=np.random.SeedSequence(1, spawn_key=(index,)),
        index=index,
    )


def made(kind: type[PolicyOptimizer], case: Case, count: int, **settings: Any) -> PolicyOptimizer:
    runtime = InlineRuntime()
    builders = [functools.partial(evaluator, i, case) for i in range(count)]
    evaluators = EvaluatorSet(runtime, evaluator(0, case), builders)
    return kind(evaluators.local, evaluators, runtime, kind.Config(rounds=4, **settings), ("default",))


def weights(optimizer: PolicyOptimizer) -> dict[str, np.ndarray]:
    return optimizer.get_weights()["default"]


def assert_alike(one: Any, other: Any) -> None:
    assert one.keys() == other.keys()
    for name, own in one.items():
        if isinstance(own, Mapping):
            assert_alike(own, other[name])
        else:
            np.testing.assert_allclose(own, other[name], rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("case", [*ALIKE, *APART])
def test_a_copy_does_what_the_only_graph_would(case: Case) -> None:
    one, other = made(AsyncGradients, case, 0), made(AsyncGradients, case, 1)
    start = weights(one)
    for _ in range(4):
        one.step()
        other.step()
    assert_alike(weights(one), weights(other))
    moved = {name for name, own in weights(one).items() if (own != start[name]).any()}
    assert {name.partition(".")[0] for name in moved} == {name.partition(".")[0] for name in start}


@pytest.mark.parametrize("case", ALIKE)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_shards_do_what_the_driver_would(case: Case, count: int) -> None:
    one, other = made(AsyncGradients, case, count), made(ShardedPS, case, count, shards=3)
    for _ in range(4):
        first, second = one.step(), other.step()
        assert first.updates == second.updates
        # With targets, which count in checkpoints as much.
        assert_alike(weights(one), weights(other))
        state, again = one.graph_states()["default"], other.graph_states()["default"]
        for part in ("weights", "optimizer"):
            assert_alike(state[part], again[part])
        assert state.get("updates") == again.get("updates") and state.get("clock") == again.get("clock")


@pytest.mark.parametrize("case", APART)
def test_no_shard_takes_what_no_one_rule_moves(case: Case) -> None:
    with pytest.raises(OptimizerError, match="no one update rule"):
        made(ShardedPS, case, 1)


@pytest.mark.parametrize("case", APART)
@pytest.mark.parametrize("count", [0, 2, 3])
def test_a_policy_that_moves_at_some_updates_only_learns(case: Case, count: int) -> None:
    optimizer = made(AsyncGradients, case, count)
    before = weights(optimizer)
    for _ in range(3):
        optimizer.step()
    after = weights(optimizer)
    assert all(np.abs(after[name] - before[name]).max() > 1e-4 for name in after if name.startswith("policy."))


@pytest.mark.parametrize("case", [NOISY, TD3, SAC])
def test_every_gradient_draws_anew(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, plain = [], OffPolicyRules._drawn

    def noted(self: Any, rows: int, update: int) -> Any:
        found = plain(self, rows, update)
        drawn.extend(array.tobytes() for part in found for name, array in part.items() if name == "noise")
        return found

    monkeypatch.setattr(OffPolicyRules, "_drawn", noted)
    optimizer = made(AsyncGradients, case, 4)
    for _ in range(4):
        optimizer.step()
    assert len(drawn) >= 64 and len(set(drawn)) == len(drawn)


@pytest.mark.parametrize(("kind", "case"), [*((AsyncGradients, one) for one in (DQN, TD3, SAC)), (ShardedPS, SAC)])
@pytest.mark.parametrize("count", [0, 2])
def test_going_on_from_a_state_is_exact(kind: type[PolicyOptimizer], case: Case, count: int) -> None:
    one, other = made(kind, case, count), made(kind, case, count)
    for _ in range(3):
        one.step()
    state = {"optimizer": one.get_state(), "evaluators": one.evaluators.get_state()}
    other.set_state(state["optimizer"])
    other.evaluators.set_state(state["evaluators"])
    for _ in range(2):
        first, second = one.step(), other.step()
        assert first.stats == second.stats
    assert all((own == weights(other)[name]).all() for name, own in weights(one).items())


def test_states_of_graphs_are_read_without_changing_them() -> None:
    one, other = made(ShardedPS, LINEAR_Q, 2, shards=2), made(ShardedPS, LINEAR_Q, 2, shards=2)
    for _ in range(4):
        one.step()
        other.step()
        before = {name: own.copy() for name, own in one._graphs["default"].get_weights().items()}
        one.graph_states()
        assert_alike(one._graphs["default"].get_weights(), before)
    assert_alike(weights(one), weights(other))


def test_graphs_without_targets_leave_their_weights_with_the_shards() -> None:
    optimizer = made(ShardedPS, (LinearPG, {}, False), 2, shards=2)
    before = optimizer._graphs["default"].get_weights()
    optimizer.step()
    assert_alike(optimizer._graphs["default"].get_weights(), before)
