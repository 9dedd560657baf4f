"""What the parts of ``async_gradients`` and ``sharded_ps`` cost on this machine, with two networks on CartPole.

All seconds are of processor time of one thread, so that other work on the machine counts little. What goes from process
to process is copied once into the memory that they share: that is in the cost of whoever gives it.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
from async_gradients import ENVS, FRAGMENT, HIDDEN
from ray_calls import CallCosts, measure_calls, processor_s, store_byte_s

from rlcore import Trainer
from rlcore.batch import DEFAULT_POLICY
from rlcore_async.gradient_products import Gradients, GradientSlices
from rlcore_async.shard import ParameterShard
from rlcore_async.shard_layout import ShardedWeights, WeightLayout
from rlcore_async.shard_states import sliced

#: How often each is measured, and into how many shards weights are cut while they are.
TIMES = {"small": 60, "large": 8}
SHARDS = 8

@dataclasses.dataclass(frozen=True)
class GradientCosts:
    """One gradient: a task (a sample of so many ``rows`` and its gradients, whole or in slices, and the deviation of
    the logarithm of that), the update in the driver, or in all shards together; their snapshots; taking over weights;
    and the bytes of the gradients, which are those of the weights, and of the shards' states."""

    parameters: int
    rows: int
    task_s: float
    sliced_task_s: float
    task_spread: float
    update_s: float
    apply_s: float
    snapshot_s: float
    receive_s: float
    gradients_bytes: int
    state_bytes: int


@dataclasses.dataclass(frozen=True)
class AsyncCosts:
    """All of it, by network."""

    networks: dict[str, GradientCosts]
    calls: CallCosts


def measure() -> AsyncCosts:
    """Takes a few minutes."""
    byte_s = store_byte_s()
    return AsyncCosts({name: _measure(name, byte_s) for name in HIDDEN}, measure_calls())


def _measure(network: str, byte_s: float) -> GradientCosts:
    config = {
        "algorithm": "a3c",
        "framework": "torch",
        "env": "CartPole-v1",
        "model": {"hidden": [HIDDEN[network]] * 2},
        "evaluators": {"envs": ENVS, "fragment": FRAGMENT},
        "runtime": "inline",
    }
    with Trainer(config) as trainer:
        trainer.step()
        local: Any = trainer.evaluators.local
        graph, trains = local.graph(DEFAULT_POLICY), (DEFAULT_POLICY,)
        weights = graph.get_weights(graph.trainable)
        size = sum(array.nbytes for array in weights.values())

        def seconds(do: Callable[[], Any]) -> list[float]:
            do()
            return [processor_s(do) for _ in range(TIMES[network])]

        whole, slices = Gradients(trains), GradientSlices(trains, SHARDS)
        tasks = seconds(lambda: local.sample_products([whole]))
        sliced_tasks = seconds(lambda: local.sample_products([slices]))
        _, gradients = local.sample_products([whole])

        def update() -> None:
            local.apply_gradients(gradients)
            graph.get_weights(graph.trainable)

        updates = seconds(update)
        rules = {DEFAULT_POLICY: dataclasses.replace(graph.update_rule(), max_grad_norm=None)}
        states = sliced({DEFAULT_POLICY: graph}, {DEFAULT_POLICY: graph.get_state()}, SHARDS)
        shards = [ParameterShard(rules) for _ in states]
        for shard, state in zip(shards, states, strict=True):
            shard.set_state(state)
        _, *parts = local.sample_products([slices])

        def apply() -> list[Any]:
            return [shard.apply(own, {DEFAULT_POLICY: 1e-3})[1] for shard, own in zip(shards, parts, strict=True)]

        applied, replica = seconds(apply), ShardedWeights({DEFAULT_POLICY: WeightLayout.of(weights)})
        snapshots = seconds(lambda: [shard.snapshot() for shard in shards])
        news = tuple(apply())
        received = seconds(lambda: local.set_weights(replica.weights(local, news), 1))
        state_bytes = sum(_nbytes(state) for state in states)
    store_s = byte_s * size
    return GradientCosts(
        parameters=sum(array.size for array in weights.values()),
        rows=ENVS * FRAGMENT,
        task_s=statistics.median(tasks) + store_s,
        sliced_task_s=statistics.median(sliced_tasks) + store_s,
        task_spread=min(1.0, statistics.pstdev([math.log(max(one, 1e-6)) for one in tasks])),
        update_s=statistics.median(updates) + store_s,
        apply_s=statistics.median(applied) + store_s,
        snapshot_s=statistics.median(snapshots) + byte_s * state_bytes,
        receive_s=statistics.median(received),
        gradients_bytes=size,
        state_bytes=state_bytes,
    )


def _nbytes(tree: Any) -> int:
    """Of all arrays in it."""
    if isinstance(tree, dict):
        return sum(map(_nbytes, tree.values()))
    return tree.nbytes if isinstance(tree, np.ndarray) else 0


if __name__ == "__main__":
    print(measure())
