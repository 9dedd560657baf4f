"""Both optimizers on small problems: what they update, with what, and that they go on exactly."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from rlcore.errors import NonFiniteError, OptimizerError
from rlcore.evaluator_set import EvaluatorSet
from rlcore.minibatches import shuffled
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import GradientOutput, PolicyGraph, shares_of
from rlcore.policy_optimizer import PolicyOptimizer
from rlcore.runtime.inline import InlineRuntime
from rlcore.runtime.snapshot import snapshot
from rlcore.sampling.collect import Fragment
from rlcore.stepping import step_together
from rlcore.testing import LinearPG, TwoAgentEnv
from rlcore_sync import AllReduce, MultiGPU
from rlcore_sync.minibatches import portions

BOTH = pytest.mark.parametrize("optimizer", [MultiGPU, AllReduce])


class PoisonedPG(LinearPG):
    """Its gradients are NaN."""

    def gradients(self, batch: Any, units: Any = None) -> GradientOutput:
        output = super().gradients(batch, units)
        bad = {name: np.full_like(gradient, np.nan) for name, gradient in output.gradients.items()}
        return GradientOutput(bad, output.count, output.stats)


def make(
    optimizer: type[PolicyOptimizer],
    count: int = 0,
    graphs: Mapping[str, type[PolicyGraph]] | None = None,
    trains: tuple[str, ...] = ("a", "b"),
    normalize: bool = True,
    **settings: Any,
) -> PolicyOptimizer:
    """An optimizer with ``count`` evaluators beside the local one, all from the same specs."""
    graphs = graphs or {"a": LinearPG, "b": LinearPG}

    def build(index: int, policies: Mapping[str, Any]) -> PolicyEvaluator:
        return PolicyEvaluator(
            env=functools.partial(TwoAgentEnv, agent_ids=("a", "b"), lengths=(8, 8)),
            policies=policies,
            config={"learning_rate": 0.05, "normalize_advantages": normalize},
            num_envs=4,
            collect=Fragment(8),
            rng=np.random.SeedSequence(5, spawn_key=(index,)),
            index=index,
        )

    first = build(0, graphs)
    specs = {name: first.graph_spec(name) for name in graphs}
    runtime = InlineRuntime()
    builders = [functools.partial(build, i, specs) for i in range(count)]
    evaluators = EvaluatorSet(runtime, build(0, specs), builders)
    return optimizer(evaluators.local, evaluators, runtime, optimizer.Config(**settings), trains)


def mean_reward(optimizer: PolicyOptimizer, steps: int) -> float:
    returns: list[float] = []
    for _ in range(steps):
        optimizer.step()
        returns += [e.episode_return for metrics in optimizer.evaluators.metrics() for e in metrics.episodes]
    return float(np.mean(returns[-8:]))


@BOTH
@pytest.mark.parametrize("count", [0, 2])
def test_two_policies_learn_their_tasks(optimizer: type[PolicyOptimizer], count: int) -> None:
    assert mean_reward(make(optimizer, count), 60) > 0.9 * 16


@BOTH
def test_only_the_policies_named_are_trained(optimizer: type[PolicyOptimizer]) -> None:
    one = make(optimizer, trains=("a",))
    before = snapshot(one.local.get_weights())
    result = one.step()
    one.evaluators.broadcast(one.get_weights(), {})
    after = one.local.get_weights()
    assert set(one.get_weights()) == {"a"}
    assert any((after["a"][name] != before["a"][name]).any() for name in before["a"])
    assert all((after["b"][name] == before["b"][name]).all() for name in before["b"])
    assert set(result.stats) == {"a"}


@pytest.mark.parametrize("count", [0, 1, 3])
def test_both_optimizers_do_the_same_with_whole_batches(count: int) -> None:
    one, other = make(MultiGPU, count, normalize=False), make(AllReduce, count, normalize=False)
    for _ in range(3):
        one.step()
        other.step()
    for policy_id, weights in one.get_weights().items():
        for name, array in weights.items():
            np.testing.assert_allclose(array, other.get_weights()[policy_id][name], rtol=1e-4, atol=1e-5)


@BOTH
def test_B150_no_other_evaluator_and_one_give_equal_weights(optimizer: type[PolicyOptimizer]) -> None:
    none, one = make(optimizer, 0, epochs=2, minibatch_size=5), make(optimizer, 1, epochs=2, minibatch_size=5)
    for _ in range(2):
        none.step()
        one.step()
    for policy_id, weights in none.get_weights().items():
        for name, array in weights.items():
            np.testing.assert_array_equal(array, one.get_weights()[policy_id][name])


def test_replicas_stay_equal_under_allreduce() -> None:
    one = make(AllReduce, 3, epochs=2, minibatch_size=16)
    for _ in range(3):
        one.step()
    for handle in one.evaluators.handles:
        replica = one.runtime.get(handle.submit("get_weights"))
        for policy_id, weights in one.get_weights().items():
            for name, array in weights.items():
                np.testing.assert_array_equal(array, replica[policy_id][name])


@BOTH
def test_counts_of_a_step(optimizer: type[PolicyOptimizer]) -> None:
    result = make(optimizer, 2, epochs=3, minibatch_size=16).step()
    assert result.env_steps == 2 * 4 * 8
    assert result.learnt_rows == 3 * 2 * 64
    assert result.updates == 3 * 2 * 4
    assert result.skipped_updates == result.dropped_rows == 0
    assert set(result.timers) == {"sample_s", "learn_s", "sync_s"}


def test_batches_of_several_rounds() -> None:
    result = make(MultiGPU, 1, train_batch_size=150).step()
    assert result.env_steps == 3 * 32  # 2 policies x 32 rows a round


@BOTH
def test_samples_name_the_version_of_the_weights(optimizer: type[PolicyOptimizer]) -> None:
    one = make(optimizer, 2)
    reader = one.evaluators.reader()
    versions = []
    for _ in range(3):
        one.step()
        samples = reader.round()
        versions.append([sample.info.version for sample in samples])
    assert versions == [[0, 0], [1, 1], [2, 2]]


@BOTH
def test_B115_gradients_that_are_not_finite_change_nothing_and_end_the_run(optimizer: type[PolicyOptimizer]) -> None:
    one = make(optimizer, 1, {"a": PoisonedPG, "b": LinearPG}, trains=("a",))
    before = snapshot(one.get_weights())
    result = one.step()
    assert (result.updates, result.skipped_updates) == (0, 1)
    for name, array in before["a"].items():
        np.testing.assert_array_equal(array, one.get_weights()["a"][name])
    with pytest.raises(NonFiniteError, match="policy 'a': the loss or a gradient was NaN or infinite in 20 updates"):
        for _ in range(19):
            one.step()


@BOTH
def test_B115_a_policy_that_never_learns_ends_the_run_though_another_does(optimizer: type[PolicyOptimizer]) -> None:
    one = make(optimizer, 0, {"a": PoisonedPG, "b": LinearPG})
    with pytest.raises(NonFiniteError, match="policy 'a'"):
        for _ in range(20):
            one.step()


def test_optimizers_that_take_different_numbers_of_rounds_share_every_sample() -> None:
    one = make(MultiGPU, 1, trains=("a",), train_batch_size=80)  # three rounds of 32 rows
    other = MultiGPU(one.local, one.evaluators, one.runtime, MultiGPU.Config(), ("b",))
    for _ in range(3):
        results = step_together([one, other])
        assert [result.env_steps for result in results] == [96, 32, 32, 32]
    assert one.evaluators.env_steps == 3 * 96
    assert (one.reader.unread, other.reader.unread) == (0, 0)


def test_replicas_are_equal_after_a_resume_with_more_evaluators() -> None:
    one = make(AllReduce, 2, epochs=2, minibatch_size=16)
    one.step()
    other = make(AllReduce, 3, epochs=2, minibatch_size=16)
    other.set_state(snapshot(one.get_state()))
    other.evaluators.set_state(snapshot(one.evaluators.get_state()))
    for _ in range(2):
        other.step()
    for handle in other.evaluators.handles:
        weights = other.runtime.get(handle.submit("get_weights"))
        for policy_id, own in other.get_weights().items():
            for name, array in own.items():
                np.testing.assert_array_equal(array, weights[policy_id][name])


def test_a_graph_that_lacks_what_an_optimizer_requires_is_refused_by_name() -> None:
    class Demanding(MultiGPU):
        requires = frozenset({"actor", "postprocess"})

    class Plain(LinearPG):
        actor = PolicyGraph.actor

    message = "optimizer Demanding cannot train policy 'a': policy graph Plain has no actor"
    with pytest.raises(OptimizerError, match=message):
        make(Demanding, 0, {"a": Plain, "b": LinearPG})


@BOTH
def test_B088_an_optimizer_goes_on_exactly_from_its_state(optimizer: type[PolicyOptimizer]) -> None:
    one = make(optimizer, 2, epochs=2, minibatch_size=10)
    one.step()
    other = make(optimizer, 2, epochs=2, minibatch_size=10)
    other.step()
    other.step()
    other.evaluators.set_state(snapshot(one.evaluators.get_state()))
    other.set_state(snapshot(one.get_state()))
    for _ in range(2):
        want, got = one.step(), other.step()
        assert want.stats == got.stats
    for policy_id, weights in one.get_weights().items():
        for name, array in weights.items():
            np.testing.assert_array_equal(array, other.get_weights()[policy_id][name])


def test_minibatches_cover_every_unit_once() -> None:
    rng = np.random.default_rng(0)
    chunks = list(shuffled(np.ones(65, np.int64), 64, rng))
    assert [len(chunk) for chunk in chunks] == [64, 1]
    assert sorted(np.concatenate(chunks).tolist()) == list(range(65))
    assert [len(chunk) for chunk in shuffled(np.ones(10, np.int64), 0, rng)] == [10]
    assert next(shuffled(np.array([], np.int64), 4, rng)).tolist() == []
    parts = portions(7, 3, rng)
    assert [len(part) for part in parts] == [3, 2, 2]
    assert sorted(np.concatenate(parts).tolist()) == list(range(7))


@pytest.mark.parametrize("devices", [2, 3])
@pytest.mark.parametrize("count", [1, 2, 64, 65])
def test_every_device_has_its_part_of_every_minibatch(devices: int, count: int) -> None:
    chunks = list(shuffled(np.ones(count, np.int64), 8, np.random.default_rng(0), devices))
    assert sorted(np.concatenate(chunks).tolist()) == list(range(count))
    assert [len(chunk) for chunk in chunks[:-1]] == [8] * (len(chunks) - 1)
    for chunk in chunks:
        parts = [sum(unit in share for unit in chunk.tolist()) for share in shares_of(count, devices)]
        assert count == 1 or max(parts) - min(parts) <= 1
    again = np.concatenate(list(shuffled(np.ones(count, np.int64), 8, np.random.default_rng(1), devices)))
    assert count < 8 or again.tolist() != np.concatenate(chunks).tolist()


def test_minibatches_of_pieces_are_whole_and_have_about_as_many_rows() -> None:
    rng = np.random.default_rng(0)
    even = list(shuffled(np.full(8, 128), 256, rng))
    assert [len(chunk) for chunk in even] == [2, 2, 2, 2]
    rows = rng.integers(1, 50, 40)
    chunks = list(shuffled(rows, 100, rng))
    assert sorted(np.concatenate(chunks).tolist()) == list(range(40))
    assert all(50 <= rows[chunk].sum() < 150 for chunk in chunks[:-1])
    # A piece that is longer than a minibatch is one of its own, and none is empty.
    assert all(len(chunk) for chunk in shuffled(np.array([500, 1, 1, 700]), 100, rng))
