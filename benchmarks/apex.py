"""Ape-X at work: whether the learner has something to learn from, whether batches are dropped, what memory it takes.

    python benchmarks/apex.py [--updates 10000]

On Ray, two evaluators of eight CartPoles, two replay actors and a learner, everyone as fast as they can be. Measuring
begins when the replay memory has filled. Of the learner is told, in shares of the time by the clock:

* learning: from the beginning of an update to its end, by the learner's own clock;
* between updates: the rest, with what it is asked for beside them (weights, snapshots) and what Ray does for each call;
* blocked: its thread slept, because there was nothing to do. It is the kernel that counts this, as what is neither
  running nor ready to run, so that a machine with fewer cores than there are workers does not look like waiting.

Memory is what a process has for itself, pages of the shared object store not counted, and what the store holds; growth
is that of a straight line through all measurements from the beginning to the end. The first fifth of the updates is
left out of it.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import ray

import rlcore
from rlcore.resolve import Resolved, resolve
from rlcore.runtime.base import Resources
from rlcore.runtime.ray import RayRuntime
from rlcore.runtime.ray.handles import RayHandle

LEARNER = "ApexLearner"
#: What workers are called here, by how their names begin.
KINDS = {"EvaluatorMaker": "evaluator", "ReplayActor": "replay actor", LEARNER: "learner"}


@rlcore.register("runtime", "watched_ray")
class WatchedRay(RayRuntime):
    """Ray, with the processes of the workers by what they are called."""

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self._spawned: list[RayHandle] = []

    def spawn(self, build: Callable[[], Any], resources: Resources = Resources()) -> RayHandle:
        handle = super().spawn(build, resources)
        self._spawned.append(handle)
        return handle

    def processes(self) -> dict[str, int]:
        """``{"replay actor 1": pid}``, this process with them. It waits until all have started."""
        found, counts = {"driver": os.getpid()}, dict.fromkeys(KINDS.values(), 0)
        for handle in self._spawned:
            kind = next(kind for begin, kind in KINDS.items() if handle.name.startswith(begin))
            found[f"{kind} {counts[kind]}"] = ray.get(handle.actor.__ray_call__.remote(lambda worker: os.getpid()))
            counts[kind] += 1
        return found


def own_memory(pid: int) -> int:
    """Bytes of a process that are no file's and not the object store's."""
    lines = [line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    return next(int(line[1]) << 10 for line in lines if line[0] == "RssAnon:")


def store_memory() -> int:
    """Bytes of the object store that are in use."""
    return int(ray.cluster_resources()["object_store_memory"] - ray.available_resources()["object_store_memory"])


def awake(pid: int) -> float:
    """Seconds for which the main thread of a process ran or was ready to, by the kernel."""
    ran, ready, _ = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()
    return (int(ran) + int(ready)) / 1e9


def settings(options: argparse.Namespace) -> Resolved:
    """The algorithm's own settings for environments that it does not know, but for a memory that fills soon."""
    config = {
        "algorithm": "apex_dqn",
        "framework": "torch",
        "env": "CartPole-v1",
        "seed": 1,
        "evaluators": {"count": 2},
        "model": {"hidden": [options.hidden] * 2},
        "runtime": {"name": "watched_ray", "cpus": 2},
        "optimizer": {
            "name": "apex",
            "capacity": options.capacity,
            "learning_starts": min(1000, options.capacity),
            "minibatch_size": options.minibatch_size,
            "replay_actors": 2,
        },
    }
    return resolve(config, env_settings=False)


class Measurements:
    """Of one run, from when it is told to begin."""

    def __init__(self, processes: dict[str, int]) -> None:
        self._processes = processes
        self._learner = processes["learner 0"]
        self.begin({"updates": 0, "env_steps": 0})

    def begin(self, row: dict[str, Any]) -> None:
        """From now on."""
        self._first = row
        self._began, self._awake = time.perf_counter(), awake(self._learner)
        self.learn_s = self.wait_s = 0.0
        self.updates: list[int] = []
        self.memory: dict[str, list[int]] = defaultdict(list)

    def add(self, row: dict[str, Any]) -> None:
        """After each iteration."""
        self.learn_s += row["learn_s"]
        self.wait_s += row["learner_wait_s"]
        self.updates.append(row["updates"] - self._first["updates"])
        for name, pid in self._processes.items():
            self.memory[name].append(own_memory(pid))
        self.memory["object store"].append(store_memory())

    def report(self, row: dict[str, Any]) -> dict[str, Any]:
        """Shares of time, counts, and by process MiB at the beginning and the end and the growth."""
        seconds = time.perf_counter() - self._began
        slept = 1.0 - (awake(self._learner) - self._awake) / seconds
        return {
            "seconds": seconds,
            "updates": self.updates[-1],
            "env_steps": row["env_steps"] - self._first["env_steps"],
            "learning": self.learn_s / seconds,
            "between updates": self.wait_s / (self.learn_s + self.wait_s),
            "blocked": max(0.0, slept),
            "dropped rows": row["dropped_rows"] - self._first.get("dropped_rows", 0),
            "memory": {name: self._line(values) for name, values in self.memory.items()},
        }

    def _line(self, values: list[int]) -> dict[str, float]:
        updates, own = np.array(self.updates), np.array(values) / (1 << 20)
        late = updates >= updates[-1] // 5
        slope, at_zero = np.polyfit(updates[late], own[late], 1)
        first, last = (at_zero + slope * at for at in (updates[late][0], updates[late][-1]))
        return {"first": float(first), "last": float(last), "grown": float(last - first), "most": float(own.max())}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Trains until the memory is full, then for as many updates as are asked for."""
    with rlcore.Trainer(settings(options)) as trainer:
        row = trainer.step()
        runtime = trainer.optimizers[0].runtime
        assert isinstance(runtime, WatchedRay)
        measurements = Measurements(runtime.processes())
        while row["env_steps"] < options.capacity or not row["updates"]:
            row = trainer.step()
        measurements.begin(row)
        until = row["updates"] + options.updates
        while row["updates"] < until:
            row = trainer.step()
            measurements.add(row)
        return measurements.report(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=10_000, help="(default: %(default)s)")
    parser.add_argument("--minibatch-size", type=int, default=512, help="rows of an update (default: %(default)s)")
    parser.add_argument("--hidden", type=int, default=256, help="units of either layer (default: %(default)s)")
    parser.add_argument("--capacity", type=int, default=100_000, help="transitions (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="one line of JSON and nothing else")
    options = parser.parse_args()
    report = measure(options)
    if options.json:
        print(json.dumps(report))
        return
    learnt = f"{report['updates']:,} updates of {options.minibatch_size} rows"
    sampled = f"{report['env_steps']:,} environment steps in {report['seconds']:.0f} s"
    print(f"{learnt} and {sampled}; dropped: {report['dropped rows']} rows")
    for share in ("learning", "between updates", "blocked"):
        print(f"  the learner: {share:<17}{report[share]:7.1%}")
    print(f"{'memory, MiB':<20}{'first':>9}{'last':>9}{'grown':>9}{'most':>9}")
    for name, own in report["memory"].items():
        print(f"{name:<20}{own['first']:9.1f}{own['last']:9.1f}{own['grown']:+9.2f}{own['most']:9.1f}")


if __name__ == "__main__":
    main()
