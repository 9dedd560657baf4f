"""How far asynchronous gradients scale, with the costs measured here: 2 to 64 workers on a simulated cluster.

    python benchmarks/async_scaling.py [--costs FILE] [--out FOLDER]

Measured are, in processor time of one thread: a task (a sample and its gradients), the update in the driver, an update
of the whole in shards, taking over weights, and what the driver's program does for a gradient; and on Ray a small
message and bytes. Everyone has a processor and a link of its own in the simulation. The table and a picture beside
figure 5(a) of the RLlib paper (2018), A3C on Atari, go to the folder: its workers' pace with a network of the size that
it used, and two networks on CartPole here. With ``--costs`` nothing is measured.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import ray_workers
from async_gradients import ENVS, FRAGMENT, HIDDEN
from matplotlib import pyplot

from rlcore import Trainer
from rlcore.batch import DEFAULT_POLICY
from rlcore.runtime.ray import RayConfig, RayRuntime
from rlcore.runtime.sim import Cost, SimConfig, SimRuntime
from rlcore.runtime.sim.calls import Bulk
from rlcore_async.gradient_products import Gradients, GradientSlices
from rlcore_async.shard import ParameterShard
from rlcore_async.shard_layout import cuts, flattened

WORKERS = (2, 4, 8, 16, 32, 64)
#: Read off figure 5(a), gradients/s by workers: a parameter server of 8 shards, and that of distributed TensorFlow.
PAPER = {
    "RLlib, 8 shards": {2: 21.7, 4: 45.2, 8: 94.2, 16: 218.3, 32: 266.1},
    "distributed TensorFlow": {2: 18.2, 4: 39.5, 8: 99.5, 16: 181.6, 32: 240.9},
}
#: Of a worker there before anything holds it up, and parameters of the network for Atari (Mnih et al. 2015).
PAPER_TASK_S = 16 / 218.3
PAPER_PARAMETERS = 1_690_000

CALLS = 200
BULK = 10 << 20
#: Gradients of each worker that are simulated.
ROUNDS = 25


@dataclass(frozen=True)
class Costs:
    """Seconds and bytes of one gradient: those of the task, of updating in the driver or, all together, in shards, of
    taking over weights, and of what the driver's program does besides: for each gradient, and for each shard of it."""

    parameters: int
    task_s: float
    task_spread: float
    driver_update_s: float
    shards_update_s: float
    receive_s: float
    driver_s: float
    driver_shard_s: float
    latency_s: float
    message_s: float
    bytes_per_s: float


class _Evaluator:
    def __init__(self, size: int, parts: int) -> None:
        self._size, self._parts = size, parts

    def task(self) -> tuple[Any, ...]:
        """News, and gradients in so many parts."""
        return None, *(Bulk(self._size // self._parts) for _ in range(self._parts))

    def receive(self, *parts: Bulk) -> None:
        """Takes weights."""


class _Shard:
    def __init__(self, size: int) -> None:
        self._size = size

    def apply(self, gradients: Bulk) -> tuple[None, Bulk]:
        """News, and weights."""
        return None, Bulk(self._size)


class _Driver:
    def work(self) -> None:
        """Takes its time."""


def rate(costs: Costs, workers: int, shards: int) -> float:
    """Gradients a second: by ``async_gradients`` where there are no shards, else by ``sharded_ps``."""
    size = 4 * costs.parameters
    work = costs.driver_s + (costs.driver_shard_s * shards if shards else costs.driver_update_s)
    calls = {
        "task": Cost(seconds=costs.task_s, spread=costs.task_spread),
        "apply": Cost(seconds=costs.shards_update_s / max(1, shards)),
        "receive": Cost(seconds=costs.receive_s),
        "work": Cost(seconds=work),
    }
    runtime = SimRuntime(
        SimConfig(
            costs=calls,
            call=Cost(seconds=0.0),
            # What messages take of the driver's time is in its own, which is that of a real run.
            latency=Cost(seconds=costs.latency_s + costs.message_s),
            bytes_per_s=costs.bytes_per_s,
        )
    )
    driver = runtime.local(_Driver())
    evaluators = [runtime.spawn(lambda: _Evaluator(size, max(1, shards))) for _ in range(workers)]
    servers = [runtime.spawn(lambda: _Shard(size // shards)) for _ in range(shards)]
    tasks = [one.submit("task", returns=1 + max(1, shards)) for one in evaluators]
    #: Of each shard the updates under way, and the newest weights that are there.
    under_way: list[list[Any]] = [[] for _ in servers]
    newest: list[Any] = [None] * shards
    done, began = 0, 0.0
    while done < (ROUNDS + 5) * workers:
        ready, _ = runtime.wait([refs[0] for refs in tasks])
        i = next(i for i, refs in enumerate(tasks) if refs[0] is ready[0])
        runtime.get(tasks[i][0])
        driver.submit("work")
        if shards:
            for k, server in enumerate(servers):
                under_way[k].append(server.submit("apply", tasks[i][1 + k], returns=2))
                while len(under_way[k]) > 2 * workers:
                    runtime.wait([under_way[k][0][0]])
                    newest[k] = under_way[k].pop(0)[1]
                while under_way[k] and runtime.wait([under_way[k][0][0]], 1, 0.0)[0]:
                    newest[k] = under_way[k].pop(0)[1]
            if None not in newest:
                evaluators[i].submit("receive", *newest)
        else:
            runtime.get(tasks[i][1])
            evaluators[i].submit("receive", runtime.put(Bulk(size)))
        tasks[i] = evaluators[i].submit("task", returns=1 + max(1, shards))
        done += 1
        if done == 5 * workers:
            began = runtime.now()
    seconds = runtime.now() - began
    runtime.close()
    return ROUNDS * workers / seconds


# -- what things cost


def processor_s(what: Callable[[], Any], times: int) -> list[float]:
    """Seconds of processor time of this thread in each of so many calls, after one that warms up."""
    what()
    found = []
    for _ in range(times):
        started = time.thread_time()
        what()
        found.append(time.thread_time() - started)
    return found


def measure(network: str, calls: tuple[float, float, float]) -> Costs:
    """What a gradient costs with that network; ``calls`` is what messages and bytes do."""
    times = 60 if network == "small" else 8
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
        trains = (DEFAULT_POLICY,)
        tasks = processor_s(lambda: local.sample_products([Gradients(trains)]), times)
        _, gradients = local.sample_products([Gradients(trains)])
        graph = local.graph(DEFAULT_POLICY)

        def update() -> None:
            local.apply_gradients(gradients)
            graph.get_weights(graph.trainable)

        in_driver = processor_s(update, times)
        slicing = processor_s(lambda: local.sample_products([GradientSlices(trains, 8)]), times)
        weights = graph.get_weights()
        flat = flattened(weights)
        rule = dataclasses.replace(graph.update_rule(), max_grad_norm=None)
        state = rule.init({"": flat})
        shards = []
        for cut in cuts(len(flat), 8):
            shard = ParameterShard({DEFAULT_POLICY: rule})
            memory = {slot: own if slot == "step" else own[""][cut] for slot, own in state.items()}
            shard.set_state({DEFAULT_POLICY: {"weights": flat[cut], "rule": memory}})
            shards.append((shard, cut))

        def in_shards() -> None:
            for shard, cut in shards:
                shard.apply({DEFAULT_POLICY: flat[cut]}, {DEFAULT_POLICY: 1e-3})

        applied = processor_s(in_shards, times)
        received = processor_s(lambda: local.set_weights({DEFAULT_POLICY: weights}, 1), times)
    logs = [math.log(max(one, 1e-6)) for one in tasks]
    latency_s, message_s, bytes_per_s = calls
    return Costs(
        parameters=len(flat),
        task_s=max(statistics.median(tasks), statistics.median(slicing)),
        task_spread=min(1.0, statistics.pstdev(logs)),
        driver_update_s=statistics.median(in_driver),
        shards_update_s=statistics.median(applied),
        receive_s=statistics.median(received),
        driver_s=0.0,
        driver_shard_s=0.0,
        latency_s=latency_s,
        message_s=message_s,
        bytes_per_s=bytes_per_s,
    )


def of_the_driver() -> tuple[float, float]:
    """Seconds of processor time of the driver's program for a gradient, and for each shard that it is cut for."""
    found = {}
    for shards in (1, 8):
        # Ray's own threads in the driver have a processor to themselves.
        config = {
            "algorithm": "a3c_ps",
            "framework": "torch",
            "env": "CartPole-v1",
            "evaluators": {"count": 2, "envs": ENVS, "fragment": FRAGMENT},
            "runtime": {"name": "ray", "cpus": 2},
            "optimizer": {"shards": shards, "rounds": 100, "snapshot_every": 1_000_000},
        }
        with Trainer(config) as trainer:
            trainer.step()
            optimizer: Any = trainer.optimizers[0]
            found[shards] = statistics.median(processor_s(optimizer.step, 3)) / 200
    by_shard = max(0.0, (found[8] - found[1]) / 7)
    return found[1] - by_shard, by_shard


def of_calls() -> tuple[float, float, float]:
    """Latency and cost of a small message, and bytes a second, of Ray here: medians."""
    runtime = RayRuntime(RayConfig(cpus=2))
    worker = runtime.spawn(ray_workers.Echo)
    runtime.get(worker.submit("take"))
    alone = statistics.median(ray_workers.seconds(lambda: runtime.get(worker.submit("take"))) for _ in range(CALLS))
    many = statistics.median(
        ray_workers.seconds(lambda: runtime.get([worker.submit("take") for _ in range(CALLS)])) for _ in range(5)
    )
    puts = [ray_workers.seconds(lambda: runtime.put(np.zeros(BULK, np.uint8))) for _ in range(10)]
    runtime.close()
    message_s = many / CALLS / 2
    return max(0.0, alone / 2 - message_s), message_s, BULK / statistics.median(puts)


def scenarios(costs: dict[str, Costs]) -> Iterator[tuple[str, Costs]]:
    """Those of the paper's pace: what is by parameter is as in the large network."""
    large = costs["large"]
    part = PAPER_PARAMETERS / large.parameters
    yield (
        "workers of the paper's pace, 1.7 million parameters",
        dataclasses.replace(
            large,
            parameters=PAPER_PARAMETERS,
            task_s=PAPER_TASK_S,
            task_spread=0.25,
            driver_update_s=large.driver_update_s * part,
            shards_update_s=large.shards_update_s * part,
            receive_s=large.receive_s * part,
        ),
    )
    yield f"CartPole here, {costs['small'].parameters:,} parameters", costs["small"]
    yield f"CartPole here, {large.parameters:,} parameters", large


def draw(found: dict[str, dict[int, dict[int, float]]], path: Path) -> None:
    figure, axes = pyplot.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for axis, (name, rates) in zip(axes, found.items(), strict=True):
        for shards, color in ((0, "tab:gray"), (1, "tab:orange"), (8, "tab:blue")):
            label = f"sharded_ps, {shards}" if shards else "async_gradients"
            axis.plot(WORKERS, [rates[n][shards] for n in WORKERS], color=color, label=label)
        axis.set(title=name, xscale="log", yscale="log", xlabel="workers", ylabel="gradients/s")
        axis.title.set_fontsize(9)
        axis.set_xticks(WORKERS, map(str, WORKERS))
        axis.set_xticks([], minor=True)
    for (name, own), marker in zip(PAPER.items(), "ox", strict=True):
        axes[0].plot(*zip(*own.items(), strict=True), f"k{marker}", mfc="none", label=f"figure 5(a): {name}")
    axes[0].legend(fontsize=7)
    axes[1].legend(fontsize=7)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--costs", type=Path, help="what was measured before")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.costs is not None:
        costs = {name: Costs(**own) for name, own in json.loads(options.costs.read_text()).items()}
    else:
        calls, (driver_s, by_shard) = of_calls(), of_the_driver()
        measured = {name: measure(name, calls) for name in HIDDEN}
        costs = {
            name: dataclasses.replace(own, driver_s=driver_s, driver_shard_s=by_shard) for name, own in measured.items()
        }
        kept = {name: dataclasses.asdict(own) for name, own in costs.items()}
        (options.out / "async-scaling.json").write_text(json.dumps(kept, indent=1))
    found: dict[str, dict[int, dict[int, float]]] = {}
    lines = ["| workers | scenario | async_gradients | 1 shard | 8 shards | figure 5(a) |", "|" + " --- |" * 6]
    for name, own in scenarios(costs):
        print(name, own, flush=True)
        found[name] = {workers: {n: rate(own, workers, n) for n in (0, 1, 8)} for workers in WORKERS}
        for workers, rates in found[name].items():
            figures = " | ".join(f"{rates[n]:,.0f}" for n in (0, 1, 8))
            paper = PAPER["RLlib, 8 shards"].get(workers, "") if name.startswith("workers") else ""
            lines.append(f"| {workers} | {name} | {figures} | {paper} |")
    (options.out / "async-scaling.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    draw(found, options.out / "async-scaling.png")


if __name__ == "__main__":
    main()
