"""What holds of ``async_gradients`` and ``sharded_ps`` whatever a simulated cluster does to them: hundreds of seeds of
delays, stragglers, losses and hangs.

A seed that fails is in the name of its test, and fails again in the same way.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support import simulated as sim

from rlcore.errors import RlcoreError, WorkerLost
from rlcore.evaluator_set import EvaluatorSet
from rlcore.places import TRIES
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_optimizer import PolicyOptimizer, StepResult
from rlcore.runtime.base import Runtime
from rlcore.runtime.sim import SimConfig, SimRuntime
from rlcore.runtime.sim.chance import SimulatedError
from rlcore.sample_stream import Sample
from rlcore.sampling.collect import Fragment
from rlcore.sampling.filters import MeanStd
from rlcore.testing.environments import Count
from rlcore.testing.linear import LinearPG

rlcore_async = pytest.importorskip("rlcore_async")

ENVS, STEPS = 2, 4
#: Rows of one evaluator's sample.
ROWS = ENVS * STEPS
EVALUATORS, SHARDS = 3, 2
#: Steps of the optimizer, and samples of each evaluator in one of them.
OPTIMIZER_STEPS, ROUNDS = 5, 4

OPTIMIZERS = ["async_gradients", "sharded_ps"]
#: Calls on one worker. An evaluator: a task, weights, what a new one is told. A shard: two pushes of each evaluator and
#: as many snapshots, its own and those of another to be kept, and what a new one is told.
MOST_IN_FLIGHT = {"async_gradients": 6, "sharded_ps": 2 * (2 * EVALUATORS + 2) + 4}


def evaluator(index: int) -> PolicyEvaluator:
    return PolicyEvaluator(
        env=lambda num_envs: Count(num_envs, 5),
        graph=LinearPG,
        num_envs=ENVS,
        collect=Fragment(STEPS),
        rng=np.random.SeedSequence(1, spawn_key=(index,)),
        index=index,
        observation_filter=MeanStd,
    )


class Training:
    """An optimizer at work, and every sample that it has taken in."""

    def __init__(self, name: str, runtime: Runtime, timeout_s: float = sim.TIMEOUT_S, **settings: Any) -> None:
        self.runtime: Any = runtime
        self.losses: list[tuple[str, int]] = []
        self.set = EvaluatorSet(
            runtime,
            evaluator(0),
            [functools.partial(evaluator, i) for i in range(EVALUATORS)],
            timeout_s=timeout_s,
            on_loss=lambda index, cause: self.losses.append(("evaluator", index)),
            on_other_loss=lambda worker, index, cause: self.losses.append((worker, index)),
        )
        kind = {"async_gradients": rlcore_async.AsyncGradients, "sharded_ps": rlcore_async.ShardedPS}[name]
        shards = {"shards": SHARDS, "snapshot_every": 4} if name == "sharded_ps" else {}
        config = kind.Config(**{"rounds": ROUNDS, **shards, **settings})
        self.optimizer: Any = kind(self.set.local, self.set, runtime, config, ("default",))
        self.samples: list[Sample] = []
        arrived = self.optimizer.samples.arrived

        def noting(most: int) -> list[Sample]:
            found: list[Sample] = arrived(most)
            self.samples += found
            return found

        self.optimizer.samples.arrived = noting

    def run(self, steps: int = OPTIMIZER_STEPS) -> Iterator[StepResult]:
        """So many steps, or fewer: a worker that fails again and again ends the run, rightly."""
        for _ in range(steps):
            try:
                result = self.optimizer.step()
                self.set.metrics()
            except (WorkerLost, SimulatedError) as error:
                again = any("was replaced after this" in note for note in getattr(error, "__notes__", []))
                # What a shard raises is the program's fault.
                assert again or isinstance(error, SimulatedError), repr(error)
                assert not again or max(self.losses.count(place) for place in set(self.losses)) >= TRIES - 1
                return
            except RlcoreError as error:
                # A shard and its neighbour were lost together with their machines, and the snapshots that they held.
                assert "lost its last snapshot" in str(error)
                assert any(worker == "parameter shard" for worker, _ in self.losses)
                return
            yield result

    def lost_tasks(self, results: list[StepResult]) -> int:
        return int(sum(result.stats["default"]["lost_tasks"] for result in results))


def seeds(few: range, many: range) -> list[Any]:
    """The few in every run of the tests, the many when they are asked for."""
    return [*few, *(pytest.param(seed, marks=pytest.mark.slow) for seed in many)]


@pytest.mark.parametrize("seed", seeds(range(25), range(25, 400)))
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_whatever_fails(name: str, seed: int) -> None:
    one = Training(name, SimRuntime(sim.faults(seed)))
    results = list(one.run())
    runtime = one.runtime
    assert runtime.now() <= sim.time_bound(runtime.faults, OPTIMIZER_STEPS * ROUNDS * 4)
    assert runtime.most_in_flight <= MOST_IN_FLIGHT[name]
    for result in results:
        assert result.env_steps >= ROUNDS * EVALUATORS * ROWS
    check_versions(one)
    check_rows(one, results)
    if not one.losses:
        assert all(result.stats["default"]["lost_updates"] == 0.0 for result in results)


def check_versions(one: Training) -> None:
    """The weights that act never go back to older ones."""
    for index in range(EVALUATORS):
        versions = [sample.info.version for sample in one.samples if sample.index == index]
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
        versions = [sample.info.version for sample in one.samples if sample.index == index]
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
    digests = []
    for seed in (3, 3, 4):
        one = Training(name, SimRuntime(sim.faults(seed)))
        steps = [(result.env_steps, result.learnt_rows, result.stats) for result in one.run()]
        digests.append((one.runtime.journal.digest(), steps, one.losses))
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


def test_pushing_pulling_and_sampling_overlap() -> None:
    """An evaluator samples all the time, though each update takes its shard nearly as long."""
    costs = {"sample_products": 0.1, "apply": 0.09, "receive": 0.001, "start": 0.0}
    runtime = SimRuntime(SimConfig(seed=1, costs=costs, latency=0.03, call=0.0001))
    local = EvaluatorSet(runtime, evaluator(0), [functools.partial(evaluator, 0)])
    config = rlcore_async.ShardedPS.Config(rounds=50, shards=2)
    optimizer = rlcore_async.ShardedPS(local.local, local, runtime, config, ("default",))
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
