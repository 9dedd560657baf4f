"""Slow environments: copies in worker processes and in threads beside copies in one process.

    python benchmarks/slow_env.py

An environment that takes a millisecond a step, either computing or waiting (for a simulator elsewhere, say), is sampled
through a PolicyEvaluator. The ways take turns, so that other work on the machine slows all of them; the ratios are
medians over the turns, and the last column that of each way's fastest turns. The goal: two worker processes reach 1.8
of one process. Two plain loops that do nothing but take their share of the milliseconds, in processes of their own,
show what the machine gives at that time: 2.0 only where both cores are free.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import gymnasium
import numpy as np

from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.sampling.collect import Fragment
from rlcore.testing.linear import LinearPG

GOAL = 1.8
WAYS: dict[str, dict[str, Any]] = {
    "one process": {"vectorization": "sync"},
    "2 processes": {"vectorization": "process", "workers": 2},
    "2 threads": {"vectorization": "thread", "workers": 2},
}


def spend(seconds: float, waits: bool) -> None:
    """Waits or computes for so long."""
    until = time.perf_counter() + seconds
    if waits:
        time.sleep(seconds)
    else:
        while time.perf_counter() < until:
            pass


class Slow(gymnasium.Env[Any, Any]):
    """Eight numbers, and ``milliseconds`` in every step; episodes of 200 steps."""

    observation_space = gymnasium.spaces.Box(-1, 1, (8,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, milliseconds: float, waits: bool) -> None:
        self.seconds = milliseconds / 1000
        self.waits = waits
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.uniform(-1, 1, 8).astype(np.float32), {}

    def step(self, action: Any) -> Any:
        spend(self.seconds, self.waits)
        self.steps += 1
        return self.np_random.uniform(-1, 1, 8).astype(np.float32), 1.0, False, self.steps == 200, {}


def evaluator(num_envs: int, steps: int, settings: dict[str, Any], own: dict[str, Any]) -> PolicyEvaluator:
    made = PolicyEvaluator(
        env=Slow, env_settings={**own, **settings}, graph=LinearPG, num_envs=num_envs, collect=Fragment(steps), rng=0
    )
    made.sample()  # workers have started, everything is warm
    return made


def plain_loop(asked: Connection, milliseconds: float, waits: bool, count: int) -> None:
    """Takes ``count`` steps whenever it is asked to, until it hears False."""
    while asked.recv():
        for _ in range(count):
            spend(milliseconds / 1000, waits)
        asked.send(True)


class PlainLoops:
    """Two loops in processes of their own, each with half of ``count`` steps."""

    def __init__(self, count: int, own: dict[str, Any]) -> None:
        self.ends = []
        for _ in range(2):
            end, theirs = multiprocessing.Pipe()
            arguments = (theirs, own["milliseconds"], own["waits"], count // 2)
            multiprocessing.Process(target=plain_loop, args=arguments, daemon=True).start()
            self.ends.append(end)

    def run(self) -> None:
        for end in self.ends:
            end.send(True)
        for end in self.ends:
            end.recv()

    def close(self) -> None:
        for end in self.ends:
            end.send(False)


def measure(num_envs: int, steps: int, rounds: int, own: dict[str, Any]) -> dict[str, list[float]]:
    """Environment steps per second of each way, turn by turn."""
    evaluators = {name: evaluator(num_envs, steps, settings, own) for name, settings in WAYS.items()}
    loops = PlainLoops(num_envs * steps, own)
    turns: dict[str, Callable[[], object]] = {name: one.sample for name, one in evaluators.items()}
    turns["2 plain loops"] = loops.run
    loops.run()
    rates: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(rounds):
        for name, turn in turns.items():
            started = time.perf_counter()
            turn()
            rates[name].append(num_envs * steps / (time.perf_counter() - started))
    for closed in (*evaluators.values(), loops):
        closed.close()
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--milliseconds", type=float, default=1.0, help="of a step (default: %(default)s)")
    parser.add_argument("--envs", type=int, nargs="+", default=[2, 8], help="copies (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=100, help="of each copy in one turn (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="turns (default: %(default)s)")
    options = parser.parse_args()
    print("| step | copies | way | steps/s | of one process (lowest, highest) | fastest |")
    print("| --- | --: | --- | --: | --- | --: |")
    for waits in (False, True):
        for num_envs in options.envs:
            own = {"milliseconds": options.milliseconds, "waits": waits}
            rates = measure(num_envs, options.steps, options.rounds, own)
            for name, own_rates in rates.items():
                ratios = sorted(one / base for one, base in zip(own_rates, rates["one process"], strict=True))
                shown = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}, {ratios[-1]:.2f})"
                kind, fastest = "waits" if waits else "computes", max(own_rates) / max(rates["one process"])
                speed = statistics.median(own_rates)
                print(f"| {kind} | {num_envs} | {name} | {speed:.0f} | {shown} | {fastest:.2f} |", flush=True)
    print(f"\ngoal: 2 processes at {GOAL} of one where it computes")


if __name__ == "__main__":
    main()
