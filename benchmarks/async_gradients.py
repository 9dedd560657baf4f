"""Gradients a second of ``async_gradients`` and ``sharded_ps`` on Ray, with a small network and with a large one.

    python benchmarks/async_gradients.py [--networks small large] [--shards 1 8]

A3C with two evaluators: CartPole with two layers of 64 units, and the same with ten million parameters, where it counts
what gradients and weights cost on their way. Contestants take turns, each some steps of its optimizer; all are there at
the same time, and one of them is at work. Given are medians over the turns of gradients by second, by second of
processor time of all processes, and as a multiple of ``async_gradients`` in the same turn.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any, NamedTuple

import ray

from rlcore.trainer import Trainer

#: Units of each of two layers; the large ones are 10 million parameters, with policy and values.
HIDDEN = {"small": 64, "large": 2230}
#: Environments and steps of one sample, and gradients of each evaluator in a turn.
ENVS, FRAGMENT = 4, 8
ROUNDS = {"small": 60, "large": 4}
EVALUATORS = 2


class Contestant(NamedTuple):
    """An optimizer, and its shards where it has any."""

    optimizer: str
    shards: int = 0

    def __str__(self) -> str:
        return f"{self.optimizer}, {self.shards} shards" if self.shards else self.optimizer


class Turn(NamedTuple):
    """Gradients by second and by second of processor time, and how stale their weights were on average."""

    by_second: float
    by_processor_second: float
    staleness: float


def trainer(one: Contestant, network: str, cpus: int) -> Trainer:
    rounds = ROUNDS[network]
    shards = {"shards": one.shards, "snapshot_every": 1_000_000} if one.shards else {}
    return Trainer(
        {
            "algorithm": "a3c",
            "framework": "torch",
            "env": "CartPole-v1",
            "model": {"hidden": [HIDDEN[network]] * 2},
            "runtime": {"name": "ray", "cpus": cpus},
            "evaluators": {"count": EVALUATORS, "envs": ENVS, "fragment": FRAGMENT},
            "optimizer": {"name": one.optimizer, "rounds": rounds, **shards},
            "seed": 1,
        }
    )


def processor_s(actors: list[Any]) -> float:
    """Seconds of processor time of the driver and of ``actors`` so far."""
    used = ray.get([actor.__ray_call__.remote(lambda own: time.process_time()) for actor in actors])
    return time.process_time() + sum(used)


def turn(own: Trainer) -> Turn:
    """One step of the optimizer."""
    optimizer: Any = own.optimizers[0]
    handles = [*own.evaluators.handles, *(optimizer._shards.handles if hasattr(optimizer, "_shards") else [])]
    actors = [handle.actor for handle in handles]
    before, processor, started = own.row.get("updates", 0), processor_s(actors), time.perf_counter()
    row = own.step()
    seconds = time.perf_counter() - started
    gradients = row["updates"] - before
    staleness = next(value for name, value in row.items() if name.endswith("staleness_mean"))
    return Turn(gradients / seconds, gradients / (processor_s(actors) - processor), staleness)


def compare(network: str, contestants: list[Contestant], turns: int) -> None:
    cpus = EVALUATORS * len(contestants)
    trainers = {one: trainer(one, network, cpus) for one in contestants}
    found: dict[Contestant, list[Turn]] = {one: [] for one in contestants}
    try:
        for own in trainers.values():
            own.step()
        for i in range(turns):
            # Whoever comes first finds the caches of whoever came last.
            for one in contestants[i % len(contestants) :] + contestants[: i % len(contestants)]:
                found[one].append(turn(trainers[one]))
        weights = next(iter(trainers.values())).weights()["default"]
    finally:
        for own in trainers.values():
            own.close()
    print(f"\n{network}: {sum(array.size for array in weights.values()):,} parameters, {EVALUATORS} evaluators")
    print(f"{'':<26}{'gradients/s':>12}{'ratio':>7}{'by CPU s':>10}{'ratio':>7}{'staleness':>11}")
    base = found[contestants[0]]
    for one, own in found.items():
        ratio, by_processor = (
            statistics.median(a[i] / b[i] for a, b in zip(own, base, strict=True)) for i in (0, 1)
        )
        rates = [statistics.median(turn[i] for turn in own) for i in range(3)]
        line = f"{one!s:<26}{rates[0]:>12.1f}{ratio:>7.2f}{rates[1]:>10.1f}{by_processor:>7.2f}{rates[2]:>11.2f}"
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--networks", nargs="+", choices=sorted(HIDDEN), default=["small", "large"])
    parser.add_argument("--shards", nargs="+", type=int, default=[1, 2, 8])
    parser.add_argument("--turns", type=int, default=9)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    contestants = [Contestant("async_gradients"), *(Contestant("sharded_ps", shards) for shards in options.shards)]
    for network in options.networks:
        compare(network, contestants, options.turns)


if __name__ == "__main__":
    main()
