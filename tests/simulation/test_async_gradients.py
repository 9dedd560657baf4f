"""What holds of ``async_gradients`` and ``sharded_ps`` whatever a simulated cluster does to them: hundreds of seeds of
delays, stragglers, losses and hangs.

A seed that fails is in the name of its test, and fails again in the same way.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import pytest
from support import simulated as sim
from support import streaming
from support.simulated import ROWS
from support.streaming import EVALUATORS, ROUNDS, digest, seeds

from rlcore.evaluator_set import EvaluatorSet
from rlcore.policy_optimizer import PolicyOptimizer, StepResult
from rlcore.runtime.base import Runtime
from rlcore.runtime.sim import SimConfig, SimRuntime
from rlcore.sample_stream import Sample
from rlcore.snapshots import Snapshots
from rlcore.testing.linear import LinearPG

rlcore_async = pytest.importorskip("rlcore_async")

SHARDS = 2
OPTIMIZERS = ["async_gradients", "sharded_ps"]
#: Calls on one worker. An evaluator: a task, weights, what a new one is told. A shard: two pushes of each evaluator and
#: as many snapshots, its own and those of another to be kept, and what a new one is told.
MOST_IN_FLIGHT = {"async_gradients": 6, "sharded_ps": 2 * (2 * EVALUATORS + 2) + 4}


class Training(streaming.Training):
    """One of them at work."""

    graph = LinearPG

    def __init__(self, name: str, runtime: Runtime, timeout_s: float = sim.TIMEOUT_S, **settings: Any) -> None:
        kind = {"async_gradients": rlcore_async.AsyncGradients, "sharded_ps": rlcore_async.ShardedPS}[name]
        shards = {"shards": SHARDS, "snapshot_every": 4} if name == "sharded_ps" else {}
        super().__init__(kind, {**shards, **settings}, runtime, timeout_s)
        #: Those whose gradients are not dropped.
        self.accepted: list[Sample] = []
        accept = self.optimizer._accept

        def noting(sample: Sample) -> bool:
            accepted: bool = accept(sample)
            if accepted:
                self.accepted.append(sample)
            return accepted

        self.optimizer._accept = noting

    @property
    def snapshots(self) -> Sequence[Snapshots]:
        found: Sequence[Snapshots] = getattr(self.optimizer, "_snapshots", ())
        return found

    def lost_tasks(self, results: list[StepResult]) -> int:
        return int(sum(result.stats["default"]["lost_tasks"] for result in results))


@pytest.mark.parametrize("seed", seeds(range(25), range(25, 400)))
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_whatever_fails(name: str, seed: int) -> None:
    one = Training(name, SimRuntime(sim.faults(seed)))
    results = list(one.run())
    one.ended_in_time(MOST_IN_FLIGHT[name])
    for result in results:
        assert result.env_steps >= ROUNDS * EVALUATORS * ROWS
    check_versions(one)
    check_rows(one, results)
    if not one.losses:
        assert all(result.stats["default"]["lost_updates"] == 0.0 for result in results)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_most_runs_reach_their_end(name: str) -> None:
    runs = (Training(name, SimRuntime(sim.faults(seed))) for seed in streaming.FIRST_SEEDS)
    assert streaming.reach_the_end(runs) >= streaming.REACH_THE_END


def check_versions(one: Training) -> None:
    """Weights never go back to older ones; newcomers may have none at first, and nothing is applied then."""
    for index in range(EVALUATORS):
        versions = [sample.info.version for sample in one.accepted if sample.index == index]
        assert versions == sorted(versions)


def check_rows(one: Training, results: list[StepResult]) -> None:
    """Every sample that came was learnt from or counted as dropped, and so was every task that was lost."""
    sampled, learnt = (sum(getattr(result, name) for result in results) for name in ("env_steps", "learnt_rows"))
    dropped = sum(result.dropped_rows for result in results)
    # Before the first sample it is not known how many rows one has.
    assert sampled - dropped <= learnt <= sampled
    assert learnt % ROWS == dropped % ROWS == 0
    assert dropped <= ROWS * one.lost_tasks(results)
    if not one.losses and not one.lost_tasks(results):
        assert learnt == sampled
    ids = [(sample.index, sample.info.number, sample.handle) for sample in one.samples]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_without_faults_nothing_is_lost(name: str, seed: int) -> None:
    one = Training(name, SimRuntime(sim.delays(seed)), timeout_s=1e6)
    results = list(one.run(8))
    assert one.losses == [] and one.lost_tasks(results) == 0
    assert all(result.learnt_rows == result.env_steps and result.dropped_rows == 0 for result in results)
    assert all(result.stats["default"]["lost_updates"] == 0.0 for result in results)
    assert one.optimizer.get_state()["ledger"]["default"]["updates"] == sum(result.updates for result in results)
    for index in range(EVALUATORS):
        versions = one.versions(index)
        assert len(set(versions)) >= len(versions) // 2


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_staleness_keeps_its_bound(name: str, seed: int) -> None:
    one = Training(name, SimRuntime(sim.delays(seed)), timeout_s=1e6, max_staleness=4)
    results = list(one.run(8))
    late = one.lost_tasks(results)
    assert sum(result.learnt_rows for result in results) == ROWS * (len(one.samples) - late)
    assert sum(result.dropped_rows for result in results) == ROWS * late
    assert (late > 0) == any(result.stats["default"]["staleness_max"] > 4 for result in results)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_seed_replays_event_by_event(name: str) -> None:
    digests = [digest(Training(name, SimRuntime(sim.faults(seed)))) for seed in (3, 3, 4)]
    assert digests[0] == digests[1] and digests[0][0] != digests[2][0]


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("fault", ["crash", "machine", "hang"])
def test_an_evaluator_that_is_lost_is_replaced_and_its_task_is_counted(name: str, fault: str) -> None:
    plan = [{"worker": 1, "method": "sample_products", "call": 3, "fault": fault}]
    one = Training(name, SimRuntime(SimConfig(seed=1, plan=plan, costs={"sample_products": 0.1})), timeout_s=1.0)
    results = list(one.run(12))
    assert one.losses == [("evaluator", 1)]
    # Those whose machine goes may have given gradients that nobody had fetched.
    assert sum(result.dropped_rows for result in results) in (ROWS, 2 * ROWS) and results[-1].updates > 0
    last = [sample.handle for sample in one.samples if sample.index == 1]
    assert len(set(last)) == 2


@pytest.mark.parametrize("fault", ["crash", "machine", "hang"])
@pytest.mark.parametrize("shards", [1, 2])
def test_a_shard_comes_back_from_its_snapshot_and_what_it_lost_is_counted(shards: int, fault: str) -> None:
    plan = [{"worker": EVALUATORS, "method": "apply", "call": 30, "fault": fault}]
    costs = {"sample_products": 0.1, "apply": 0.01}
    runtime = SimRuntime(SimConfig(seed=1, plan=plan, costs=costs))
    one = Training("sharded_ps", runtime, timeout_s=50.0, shards=shards, snapshot_every=4)
    results = list(one.run(8))
    assert one.losses == [("parameter shard", 0)] and len(results) == 8
    lost = int(sum(result.stats["default"]["lost_updates"] for result in results))
    # Not more than since the last snapshot that had come, and what was on its way.
    assert 1 <= lost <= 2 * 4 + 2 * EVALUATORS + 2
    updates = sum(result.updates for result in results)
    steps = {i: own["default"]["rule"]["step"] for i, own in one.optimizer._shards.ask("get_state").items()}
    assert steps[0] == updates - lost and all(own == updates for i, own in steps.items() if i)


def test_a_snapshot_outlives_its_shard_and_whoever_held_it_first() -> None:
    plan = [
        {"worker": 0, "method": "sample_products", "call": 8, "fault": "machine"},
        {"worker": EVALUATORS, "method": "apply", "call": 36, "fault": "machine"},
    ]
    costs = {"sample_products": 0.1, "apply": 0.01}
    one = Training("sharded_ps", SimRuntime(SimConfig(seed=1, plan=plan, costs=costs, inline_bytes=0)), shards=1,
                   snapshot_every=20, timeout_s=50.0)
    results = list(one.run(8))
    assert one.losses == [("evaluator", 0), ("parameter shard", 0)] and len(results) == 8
    lost = int(sum(result.stats["default"]["lost_updates"] for result in results))
    assert 36 - 20 <= lost <= 36 - 20 + 2 * EVALUATORS + 2


class Lone(Training):
    """The same with one evaluator."""

    evaluators = 1


@pytest.mark.parametrize("moment", [-0.5, 0.2, 0.5, 0.99, 1.05])
def test_a_newcomer_does_not_compute_gradients_of_weights_that_nobody_has_learnt(moment: float) -> None:
    """With the machines of an evaluator and of a shard the weights go that the newcomer is being sent."""
    plan = [{"worker": 0, "method": "sample_products", "call": 8, "fault": "machine"}]
    costs = {"sample_products": 1.0, "apply": 0.01, "start": 1.0}
    one = Lone("sharded_ps", SimRuntime(SimConfig(seed=1, plan=plan, costs=costs, inline_bytes=0)), timeout_s=50.0,
               shards=1, snapshot_every=1000)
    runtime = one.runtime
    (shard,) = one.optimizer._shards.handles

    def die() -> None:
        shard.actor.die("its machine is gone", machine=True)

    # Before the evaluator's task ends that it does not survive, or so many seconds after another has taken its place.
    if moment < 0.0:
        started = list(one.run(1))
        assert len(started) == 1
        runtime._cluster.timeline.at(runtime.now() + 4.0, die)
    else:
        def later(handle: Any, index: int) -> list[Any]:
            runtime._cluster.timeline.at(runtime.now() + moment, die)
            return []

        one.set.bring_up_with(later)
    results = list(one.run(8))
    assert {("evaluator", 0), ("parameter shard", 0)} == set(one.losses) and len(results) == 8
    versions = [sample.info.version for sample in one.accepted]
    assert versions == sorted(versions) and versions.count(0) <= 2
    dropped = len(one.samples) - len(one.accepted)
    assert dropped <= 3 and one.lost_tasks(results) >= dropped
    # It goes on with those of the new shard.
    assert results[-1].updates > 0 and max(versions) > 9


def test_pushing_pulling_and_sampling_overlap() -> None:
    """An evaluator samples all the time, though each update takes its shard nearly as long."""
    costs = {"sample_products": 0.1, "apply": 0.09, "receive": 0.001, "start": 0.0}
    runtime = SimRuntime(SimConfig(seed=1, costs=costs, latency=0.03, call=0.0001))
    make = functools.partial(streaming.evaluator, LinearPG, {}, 0)
    evaluators = EvaluatorSet(runtime, make(), [make])
    config = rlcore_async.ShardedPS.Config(rounds=50, shards=2)
    optimizer = rlcore_async.ShardedPS(evaluators.local, evaluators, runtime, config, ("default",))
    optimizer.step()
    began = runtime.now()
    result = optimizer.step()
    # A sample, the call and its answer; one after the other an update would take 0.28 seconds at the least.
    assert result.updates == 50 and runtime.now() - began <= 50 * 0.165
    assert result.stats["default"]["staleness_mean"] <= 2.0


def test_what_goes_with_its_machine_before_it_was_fetched_is_dropped() -> None:
    settings: dict[str, Any] = {"costs": {"sample_products": 0.1}, "inline_bytes": 0, "seed": 2}
    plan = [{"worker": 0, "method": "sample_products", "call": 4, "fault": "machine"}]
    one = Training("async_gradients", SimRuntime(SimConfig(plan=plan, **settings)))
    results = list(one.run(8))
    assert one.losses == [("evaluator", 0)] and results[-1].updates > 0
    check_rows(one, results)


def test_streams_share_evaluators_and_get_what_each_asks_for() -> None:
    one = Training("sharded_ps", SimRuntime(sim.delays(4)), timeout_s=1e6)
    stream = one.set.stream(1)
    results = list(one.run(3))
    whole = stream.arrived(1000)
    assert [sample.info.number for sample in whole] == [sample.info.number for sample in one.samples]
    assert sum(len(one.runtime.get(sample.batch)["default"]) for sample in whole) == ROWS * len(one.samples)
    assert isinstance(one.optimizer, PolicyOptimizer) and results[-1].updates > 0
