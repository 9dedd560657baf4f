"""A simulated cluster for ``async_gradients`` and ``sharded_ps``: their program is the real one, its workers are light.

The workers' calls take the time, and their values have the size, that is stated. So does the update of
``async_gradients``, which is the driver's own work.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
from async_costs import GradientCosts
from ray_calls import CallCosts
from simulated_driver import BYTES_PER_S, LATENCY_S, Counting, TimedDriver

import rlcore_async.sharded_ps
from rlcore.batch import DEFAULT_POLICY
from rlcore.evaluator_messages import Metrics, SampleInfo
from rlcore.evaluator_set import EvaluatorSet
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_optimizer import StepResult
from rlcore.runtime.sim import Cost, SimConfig
from rlcore.runtime.sim.calls import Bulk
from rlcore.sample_products import SampleProduct
from rlcore.sampling.collect import Fragment
from rlcore.snapshots import SnapshotKeeper
from rlcore.testing.environments import Count
from rlcore.testing.linear import LinearPG
from rlcore_async import AsyncGradients, AsyncGradientsConfig, ShardedPS, ShardedPSConfig
from rlcore_async.gradient_products import GradientNote

#: Steps of the optimizer that are let go by first, and that are counted then, each of so many gradients a worker.
WARMING, COUNTED, ROUNDS = 1, 5, 5
#: What the graphs of torch say of an update; their values do not matter here.
STATS = dict.fromkeys(("policy_loss", "value_loss", "entropy", "kl", "gradient_norm", "loss"), 0.0)


@dataclasses.dataclass(frozen=True)
class Load:
    """What became of one cluster: with ``shards`` of ``sharded_ps``, or 0 for ``async_gradients``.

    Gradients a second; the shares of the time for which the driver, each worker and each shard were busy; of the
    driver's microseconds for a gradient those in all, and those of its own program alone; and by how many versions
    weights were out of date on average.
    """

    scenario: str
    workers: int
    shards: int
    gradients_per_s: float
    driver: float
    worker: float
    shard: float
    driver_us: float
    program_us: float
    staleness: float


# -- light workers


class BulkByPolicy(Bulk):
    """Stands for ``{policy_id: ...}`` of so many bytes."""

    def items(self) -> list[tuple[str, Bulk]]:
        """Of the one policy."""
        return [(DEFAULT_POLICY, Bulk(self.size))]


class LightEvaluator(Counting, SnapshotKeeper):
    """Gives gradients of a size."""

    def __init__(self, costs: GradientCosts) -> None:
        super().__init__()
        self._costs = costs
        self._number = 0
        self._version = 0

    def sample_products(self, products: Sequence[SampleProduct]) -> tuple[Any, ...]:
        self.note("sample_products")
        (product,) = products
        self._number += 1
        rows = {DEFAULT_POLICY: self._costs.rows}
        info = SampleInfo(self._number, self._costs.rows, rows, dict(rows), self._version, {}, Metrics())
        notes = {DEFAULT_POLICY: GradientNote(self._costs.rows, STATS, False, self._version)}
        part = BulkByPolicy(self._costs.gradients_bytes // product.results)
        return (info, [notes]), *[part] * product.results

    def receive(self, update: Any, *parts: Bulk) -> None:
        self.note("receive")
        self._version = update.version


class LightShard(Counting):
    """Applies nothing. The rules of a shard are of no use to it."""

    def __init__(self, weights_bytes: int, state_bytes: int, *rules: Any) -> None:
        super().__init__()
        self._weights = Bulk(weights_bytes)
        self._state = Bulk(state_bytes)

    def set_state(self, state: Any) -> None:
        """Goes on from it."""

    def apply(self, gradients: Any, rates: Mapping[str, float]) -> tuple[None, Bulk]:
        self.note("apply")
        return None, self._weights

    def snapshot(self) -> tuple[None, Bulk]:
        self.note("snapshot")
        return None, self._state


class LightGraph(LinearPG):
    """The driver's own, where that has the weights: it is busy with an update, and its weights have a size."""

    update: Callable[[], None]
    size: int

    @property
    def trainable(self) -> frozenset[str]:
        return frozenset()

    def apply_gradients(self, gradients: Any) -> None:
        self.update()

    def get_weights(self, names: Any = None) -> Any:
        return Bulk(self.size)


class Driver(TimedDriver):
    """What is put counts by the weights in it."""

    def put(self, value: Any) -> Any:
        weights = [own for own in value.values() if isinstance(own, Bulk)] if isinstance(value, dict) else []
        return super().put(Bulk(sum(own.size for own in weights)) if weights else value)


# -- one cluster


def simulate(scenario: str, costs: GradientCosts, calls: CallCosts, workers: int, shards: int) -> Load:
    """Some gradients of each worker; by ``async_gradients`` where there are no shards."""
    seconds = method_costs(costs, calls, shards)
    config = SimConfig(
        costs=seconds, call=Cost(seconds=calls.worker_s), latency=Cost(seconds=LATENCY_S), bytes_per_s=BYTES_PER_S
    )
    runtime = Driver(config, calls)
    optimizer, evaluators = _parts(runtime, costs, workers, shards)
    crews = {"worker": evaluators.handles, "shard": optimizer._shards.handles if shards else []}
    # The simulation's own objects would be collected in the driver's time.
    gc.disable()
    for _ in range(WARMING):
        optimizer.step()
    before, results = _counts(runtime, crews), list[StepResult]()
    for _ in range(COUNTED):
        results.append(optimizer.step())
        evaluators.metrics()
    gc.enable()
    load = _load((scenario, workers, shards), seconds, (before, _counts(runtime, crews)), results)
    runtime.close()
    return load


def _parts(runtime: Driver, costs: GradientCosts, workers: int, shards: int) -> tuple[Any, EvaluatorSet]:
    local = PolicyEvaluator(
        env=lambda num_envs: Count(num_envs, 5),
        graph=LinearPG if shards else LightGraph,
        num_envs=1,
        collect=Fragment(1),
        rng=0,
    )
    evaluators = EvaluatorSet(runtime, local, [functools.partial(LightEvaluator, costs)] * workers)
    if not shards:
        graph: Any = local.graph(DEFAULT_POLICY)
        graph.update, graph.size = functools.partial(runtime.work, costs.update_s), costs.gradients_bytes
        return AsyncGradients(local, evaluators, runtime, AsyncGradientsConfig(rounds=ROUNDS), ("default",)), evaluators
    shard = functools.partial(LightShard, costs.gradients_bytes // shards, costs.state_bytes // shards)
    with patch.object(rlcore_async.sharded_ps, "ParameterShard", shard):
        settings = ShardedPSConfig(rounds=ROUNDS, shards=shards)
        return ShardedPS(local, evaluators, runtime, settings, ("default",)), evaluators


def method_costs(costs: GradientCosts, calls: CallCosts, shards: int) -> dict[str, Cost]:
    """Of the calls that do something; what Ray needs in the worker is added to all."""
    seconds = {
        "sample_products": costs.sliced_task_s if shards else costs.task_s,
        "receive": costs.receive_s,
        "apply": costs.apply_s / max(1, shards),
        "snapshot": costs.snapshot_s / max(1, shards),
    }
    spreads = {"sample_products": costs.task_spread}
    return {
        method: Cost(seconds=own + calls.worker_s, spread=spreads.get(method, 0.0)) for method, own in seconds.items()
    }


def _counts(runtime: Driver, crews: dict[str, Sequence[Any]]) -> dict[str, Any]:
    counts = {crew: [dict(handle.inner.worker.counts) for handle in handles] for crew, handles in crews.items()}
    return {"now": runtime.now(), "program": runtime.watch.program_s, "calls": runtime.watch.calls_s, **counts}


def _load(
    cluster: tuple[str, int, int], costs: dict[str, Cost], counts: tuple[Any, Any], results: Sequence[StepResult]
) -> Load:
    before, after = counts
    seconds = after["now"] - before["now"]

    def busy(crew: str, methods: Sequence[str]) -> float:
        shares = [
            sum((own.get(name, 0) - earlier.get(name, 0)) * costs[name].seconds for name in methods) / seconds
            for own, earlier in zip(after[crew], before[crew], strict=True)
        ]
        return float(np.mean(shares)) if shares else 0.0

    gradients = sum(result.updates for result in results)
    program_s, calls_s = (after[name] - before[name] for name in ("program", "calls"))
    return Load(
        *cluster,
        gradients_per_s=gradients / seconds,
        driver=(program_s + calls_s) / seconds,
        worker=busy("worker", ("sample_products", "receive")),
        shard=busy("shard", ("apply", "snapshot")),
        driver_us=1e6 * (program_s + calls_s) / gradients,
        program_us=1e6 * program_s / gradients,
        staleness=float(np.mean([result.stats[DEFAULT_POLICY]["staleness_mean"] for result in results])),
    )
