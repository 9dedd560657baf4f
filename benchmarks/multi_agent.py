"""What several agents in an environment cost beside as many environments with one agent: the same rows, taken in turns.

    python benchmarks/multi_agent.py

Both sides compute the same game for the same number of rows, act with the same 64 x 64 network, and record a full batch
with log-probabilities, values and advantages. The goal: agent steps per second at ten agents are at least half of those
with one agent. The ratio is the median over the turns, of processor time.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from rlcore.batch import MultiAgentBatch
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.sampling.collect import Fragment
from rlcore_multiagent.games import Moved, SimultaneousGame
from rlcore_torch import PPO

AGENTS, STEPS, LENGTH, LEAST = 10, 50, 50, 0.5


class Crowd(SimultaneousGame):
    """Agents that push a point each, left or right."""

    def __init__(self, num_envs: int, agents: int) -> None:
        names = [f"agent_{i}" for i in range(agents)]
        super().__init__(num_envs, names, (Box(-np.inf, np.inf, (4,), np.float32), Discrete(2)))
        self.games = {"t": np.zeros(num_envs, np.int64), "x": np.zeros((num_envs, agents, 4), np.float32)}

    def begin(self, slots: NDArray[np.int64]) -> None:
        self.games["t"][slots] = self.rng.integers(LENGTH, size=len(slots)) if not self._env_step.any() else 0
        self.games["x"][slots] = 0.0

    def move(self, actions: NDArray[np.int64]) -> Moved:
        x = self.games["x"]
        x[:, :, 1] += 0.1 * (2 * actions - 1)
        x[:, :, 0] += 0.1 * x[:, :, 1]
        self.games["t"] += 1
        over = self.games["t"] >= LENGTH
        return Moved(-np.abs(x[:, :, 0]), over, np.zeros_like(over))

    def observe(self) -> NDArray[np.float32]:
        return self.games["x"].copy()


def evaluator(rows: int, agents: int) -> PolicyEvaluator:
    """One that hands over ``rows`` rows a step."""
    actor: Any = PolicyEvaluator(
        env=Crowd, env_settings={"agents": 1}, graph=PPO, config={"model": {"hidden": [64, 64]}}, rng=0
    ).graph("default").actor()
    return PolicyEvaluator(
        env=Crowd,
        env_settings={"agents": agents},
        policies={"default": actor},
        num_envs=rows // agents,
        collect=Fragment(STEPS),
        rng=0,
    )


def rate(sampler: PolicyEvaluator, rounds: int) -> float:
    """Rows per second of processor time."""
    rows, started = 0, time.process_time()
    for _ in range(rounds):
        batch = sampler.sample()
        assert isinstance(batch, MultiAgentBatch)
        rows += sum(map(len, batch.values()))
    return rows / (time.process_time() - started)


def main() -> None:
    """Prints a line for each number of rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for rows in (100, 1000, 10_000):
        one, many = evaluator(rows, 1), evaluator(rows, AGENTS)
        rates: dict[str, list[float]] = {"one": [], "many": []}
        for turn in range(options.turns + 1):
            pair = rate(one, options.rounds), rate(many, options.rounds)
            if turn:  # the first one warms up
                rates["one"].append(pair[0])
                rates["many"].append(pair[1])
        ratio = statistics.median(b / a for a, b in zip(rates["one"], rates["many"], strict=True))
        verdict = "met" if ratio >= LEAST else "missed"
        print(
            f"{rows:6d} rows a step: one agent {statistics.median(rates['one']):9.0f} rows/s, {AGENTS} agents "
            f"{statistics.median(rates['many']):9.0f} rows/s, ratio {ratio:.2f} (goal {LEAST}: {verdict})"
        )


if __name__ == "__main__":
    main()
