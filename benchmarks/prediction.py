"""Measures what sampling, learning, messages and bytes cost here, and predicts throughput against evaluators from it.

Beside each prediction stands the real thing on Ray, as far as this machine has cores, and there a second prediction:
from samples that were timed while as many evaluators sampled at once, which share the machine. Run by itself, where
nothing else runs: ``python benchmarks/prediction.py``.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import ray_workers

from rlcore import Trainer
from rlcore.runtime.base import Runtime
from rlcore.runtime.ray import RayConfig, RayRuntime
from rlcore.runtime.sim.prediction import MeasuredCosts, predict
from rlcore.runtime.snapshot import sized_snapshot

CONFIG: dict[str, Any] = {
    "algorithm": "ppo",
    "env": "CartPole-v1",
    "evaluators": {"envs": 8, "fragment": 256},
    "optimizer": {"epochs": 4, "minibatch_size": 512},
}
ITERATIONS = 12
CALLS = 200
BULK = 10 << 20
PREDICTED = (1, 2, 4, 8, 16, 64, 256)


class Worker(ray_workers.Echo):
    """Gives bytes, and holds an evaluator that it can time."""

    def __init__(self, build: Callable[[], Any] | None = None) -> None:
        self._evaluator = build() if build is not None else None

    def give(self, size: int) -> Any:
        """So many bytes."""
        return np.zeros(size, np.uint8)

    def time_samples(self, count: int) -> tuple[list[float], int, int]:
        """Seconds of each of so many samples, the environment steps of one, and its bytes."""
        assert self._evaluator is not None
        times = []
        for _ in range(count):
            started = time.perf_counter()
            info, batch = self._evaluator.sample_counted()
            times.append(time.perf_counter() - started)
        return times, info.env_steps, sized_snapshot(batch)[1]


def measure(runtime: Runtime) -> MeasuredCosts:
    """Medians, in workers that are processes of their own."""
    maker = ray_workers.makers(CONFIG)
    sampler = runtime.spawn(lambda: Worker(lambda: maker.sampler(0)))
    times, env_steps, size = runtime.get(sampler.submit("time_samples", ITERATIONS))
    times = times[2:]
    alone = statistics.median(ray_workers.seconds(lambda: runtime.get(sampler.submit("take"))) for _ in range(CALLS))
    many = statistics.median(
        ray_workers.seconds(lambda: runtime.get([sampler.submit("take") for _ in range(CALLS)])) for _ in range(5)
    )
    fetches = []
    for _ in range(10):
        ref = sampler.submit("give", BULK)
        runtime.wait([ref])
        fetches.append(ray_workers.seconds(lambda ref=ref: runtime.get(ref)))
    runtime.kill(sampler)
    learn_s, weights = learning()
    # A call is two messages, each of which keeps both sides, and is on its way besides.
    message_s = many / CALLS / 2
    return MeasuredCosts(
        sample_s=statistics.median(times),
        sample_spread=statistics.pstdev([math.log(one) for one in times]),
        sample_env_steps=env_steps,
        sample_bytes=size,
        learn_s_per_env_step=learn_s,
        weights_bytes=sized_snapshot(weights)[1],
        latency_s=max(0.0, alone / 2 - message_s),
        message_s=message_s,
        bytes_per_s=BULK / max(1e-9, statistics.median(fetches) - alone / 2),
    )


def together(runtime: Runtime, costs: MeasuredCosts, count: int) -> MeasuredCosts:
    """``costs`` where so many evaluators sample at once."""
    maker = ray_workers.makers(CONFIG)
    samplers = [runtime.spawn(lambda i=i: Worker(lambda: maker.sampler(i))) for i in range(count)]
    runtime.get([sampler.submit("take") for sampler in samplers])
    found = runtime.get([sampler.submit("time_samples", ITERATIONS) for sampler in samplers])
    for sampler in samplers:
        runtime.kill(sampler)
    times = [one for times, _, _ in found for one in times[2:]]
    spread = statistics.pstdev([math.log(one) for one in times])
    return replace(costs, sample_s=statistics.median(times), sample_spread=spread)


def learning() -> tuple[float, Any]:
    """Seconds of learning for an environment step, and the weights that are learnt."""
    with Trainer({**CONFIG, "runtime": "inline"}) as trainer:
        rows = [trainer.step() for _ in range(ITERATIONS)][2:]
        steps = rows[0]["env_steps"] / rows[0]["iteration"]
        return statistics.median(row["learn_s"] for row in rows) / steps, trainer.weights()


def real(count: int) -> tuple[float, float, float]:
    """Environment steps a second, and seconds of sampling and of learning in a round, of a run on Ray."""
    evaluators = {**CONFIG["evaluators"], "count": count}
    with Trainer({**CONFIG, "evaluators": evaluators, "runtime": "ray"}) as trainer:
        rows = [trainer.step() for _ in range(ITERATIONS)][2:]
    sample_s = statistics.median(row["sample_s"] for row in rows)
    learn_s = statistics.median(row["learn_s"] + row["sync_s"] for row in rows)
    return rows[0]["env_steps"] / rows[0]["iteration"] / (sample_s + learn_s), sample_s, learn_s


def main() -> None:
    cores = os.cpu_count() or 1
    runtime = RayRuntime(RayConfig(cpus=max(cores, 2)))
    costs = measure(runtime)
    print(costs)
    seconds = f"{'sample_s':>10}{'learn_s':>9}"
    print(f"{'evaluators':>10}{'predicted/s':>13}{seconds}{'real/s':>11}{seconds}")
    for count in PREDICTED:
        found = predict(costs, count)
        line = f"{count:>10}{found.env_steps_per_s:>13,.0f}{found.sample_s:>10.4f}{found.learn_s:>9.4f}"
        if count <= cores:
            rate, sample_s, learn_s = real(count)
            shared = predict(together(runtime, costs, count), count).env_steps_per_s
            line += f"{rate:>11,.0f}{sample_s:>10.4f}{learn_s:>9.4f}"
            line += f"   predicted/real {found.env_steps_per_s / rate:.2f}, from samples together {shared / rate:.2f}"
        print(line, flush=True)
    runtime.close()


if __name__ == "__main__":
    main()
