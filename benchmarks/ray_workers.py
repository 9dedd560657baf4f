"""What workers on Ray cost: until the first call and the first sample, a call, a broadcast of weights, memory.

Beside each figure stands that of a bare Ray actor in the same run, where there is one; they take turns. Beside a
broadcast stands that of weights of a fiftieth of the size, which takes the same way: what is copied would show. Run by
itself: ``python benchmarks/ray_workers.py``.
"""

from __future__ import annotations

import functools
import os
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import ray

from rlcore.evaluator_maker import EvaluatorMaker
from rlcore.hooks import load_hooks
from rlcore.parts import build_parts
from rlcore.resolve import resolve
from rlcore.runtime.ray import RayRuntime

ROUNDS = 7
CALLS = 300
BROADCASTS = 40
WEIGHTS_MB = 10


class Echo:
    """Returns nothing, whatever it is given."""

    def processor_s(self) -> float:
        """Seconds of processor time since the process began."""
        return time.process_time()

    def take(self, value: Any = None) -> None:
        """Does nothing."""


class BareGym:
    """A bare actor that imports gymnasium and steps one environment."""

    def __init__(self) -> None:
        import gymnasium

        self.env = gymnasium.make("CartPole-v1")
        self.env.reset(seed=0)

    def processor_s(self) -> float:
        """Seconds of processor time since the process began."""
        return time.process_time()

    def take(self, value: Any = None) -> None:
        """Does nothing."""


class Sampler:
    """An evaluator in its process, which says how much memory is its own."""

    def __init__(self, build: Callable[[], Any]) -> None:
        self.evaluator = build()

    def sample(self) -> int:
        """Takes a sample."""
        return self.evaluator.sample_counted()[0].env_steps

    def processor_s(self) -> float:
        """Seconds of processor time since the process began."""
        return time.process_time()

    def own_memory(self) -> float:
        """MB that no other process shares."""
        lines = [line.split() for line in Path("/proc/self/smaps_rollup").read_text().splitlines()]
        return sum(int(line[1]) for line in lines if line[0] in ("Private_Clean:", "Private_Dirty:")) / 1024


def seconds(do: Callable[..., Any], *arguments: Any) -> float:
    started = time.perf_counter()
    do(*arguments)
    return time.perf_counter() - started


def until_answer(start: Callable[[], Any], ask: Callable[[Any], Any], pause: float = 1.0) -> tuple[float, Any]:
    """Seconds from ``start()`` to the answer of what it started, and that; Ray gets a pause to settle before."""
    time.sleep(pause)
    started = time.perf_counter()
    worker = start()
    ask(worker)
    return time.perf_counter() - started, worker


def report(what: str, ours: list[float], bare: list[float] | None = None, unit: str = "ms", scale: float = 1e3) -> None:
    line = f"{what:<44}{statistics.median(ours) * scale:9.2f} {unit}"
    if bare is not None:
        line += f"   bare {statistics.median(bare) * scale:9.2f} {unit}"
        line += f"   ratio {statistics.median([a / b for a, b in zip(ours, bare, strict=True)]):5.2f}"
    print(line, flush=True)


#: A run of PPO with a small network.
SMALL = {"algorithm": "ppo", "env": "CartPole-v1", "evaluators": {"envs": 8, "fragment": 128}}


def makers(settings: Mapping[str, Any] = SMALL) -> EvaluatorMaker:
    """What makes the evaluators of a run."""
    parts = build_parts(resolve(settings), load_hooks([]), {})
    parts.close()
    return parts.maker


def starts(runtime: RayRuntime, maker: EvaluatorMaker) -> None:
    """From asking for a worker to its first answer."""
    ours, samples, bare, memory = [], [], [], []
    processor: list[list[float]] = [[], []]
    bare_actor = ray.remote(num_cpus=0)(BareGym)
    for i in range(ROUNDS):
        took, actor = until_answer(bare_actor.remote, lambda actor: ray.get(actor.take.remote()))
        bare.append(took)
        processor[1].append(ray.get(actor.processor_s.remote()))
        ray.kill(actor)
        took, handle = until_answer(
            functools.partial(runtime.spawn, Echo), lambda handle: runtime.get(handle.submit("take"))
        )
        ours.append(took)
        runtime.kill(handle)
        build = functools.partial(Sampler, functools.partial(maker.sampler, i))
        took, handle = until_answer(
            functools.partial(runtime.spawn, build), lambda handle: runtime.get(handle.submit("sample"))
        )
        samples.append(took)
        processor[0].append(runtime.get(handle.submit("processor_s")))
        memory.append(runtime.get(handle.submit("own_memory")))
        runtime.kill(handle)
    report("first call of a worker", ours, bare, "s", 1.0)
    report("first sample of an evaluator (1024 steps)", samples, bare, "s", 1.0)
    report("the same, processor time of its process", *processor, "s", 1.0)
    report("memory of its own", memory, unit="MB", scale=1.0)


def calls(runtime: RayRuntime) -> None:
    """One call at a time, and many in flight."""
    handle, actor = runtime.spawn(Echo), ray.remote(num_cpus=0)(Echo).remote()
    runtime.get(handle.submit("take"))
    ray.get(actor.take.remote())
    single: list[list[float]] = [[], []]
    for _ in range(CALLS):
        single[0].append(seconds(lambda: runtime.get(handle.submit("take"))))
        single[1].append(seconds(lambda: ray.get(actor.take.remote())))
    report("one call", *single)
    many: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        many[0].append(seconds(lambda: runtime.get([handle.submit("take") for _ in range(CALLS)])) / CALLS)
        many[1].append(seconds(lambda: ray.get([actor.take.remote() for _ in range(CALLS)])) / CALLS)
    report("one of many calls in flight", *many)
    runtime.kill(handle)


def broadcasts(runtime: RayRuntime) -> None:
    """Weights put once, and handed to every worker; beside a fiftieth of them, which is shared in the same way."""
    weights = {"default": {"w": np.zeros(WEIGHTS_MB << 18, np.float32)}}
    fewer = {"default": {"w": np.zeros(WEIGHTS_MB << 18, np.float32)[::50].copy()}}
    for count in (1, 2, 4):
        handles = [runtime.spawn(Echo) for _ in range(count)]
        runtime.get([handle.submit("take") for handle in handles])
        puts, gets, gets_of_fewer = [], [], []
        for _ in range(BROADCASTS):
            started = time.perf_counter()
            ref = runtime.put(weights)
            puts.append(time.perf_counter() - started)
            gets.append(seconds(take, runtime, handles, ref))
            few = runtime.put(fewer)
            gets_of_fewer.append(seconds(take, runtime, handles, few))
        report(f"{WEIGHTS_MB} MB to {count} workers: one put", puts)
        report(f"{WEIGHTS_MB} MB to {count} workers: all have it", gets, gets_of_fewer)
        for handle in handles:
            runtime.kill(handle)


def take(runtime: RayRuntime, handles: list[Any], value: Any) -> None:
    runtime.get([handle.submit("take", value) for handle in handles])


def main() -> None:
    # An installed package has its bytecode beside it, and so has a source tree that was used before.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    started = time.perf_counter()
    runtime = RayRuntime()
    print(f"a Ray of our own is there after {time.perf_counter() - started:.1f} s")
    starts(runtime, makers())
    calls(runtime)
    broadcasts(runtime)
    print(f"it ends within {seconds(runtime.close):.2f} s")


if __name__ == "__main__":
    main()
