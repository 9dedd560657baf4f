"""The same training under torch and under TensorFlow: PPO and DQN on CartPole-v1, as their recipes have it.

    python benchmarks/frameworks.py [--turns N] [--env-steps N]

Both trainers are in one process with one thread and take turns of so many environment steps; the first turn, in which
functions are traced and replay begins, is not counted. Ratios are medians over the turns, by the clock and by the
process's CPU time. Prints a JSON line for each algorithm and framework, and how often TensorFlow has traced functions
by the end of the first turn and by the end of the last.

Goal: under TensorFlow 0.7 of the environment steps/s under torch.
"""

from __future__ import annotations

import argparse
import json
import statistics
from typing import Any

from recipe import ENV_ID, Stopwatch

import rlcore

ALGORITHMS = ("ppo", "dqn")
FRAMEWORKS = ("torch", "tf")


class Contestant:
    """A run that goes on turn by turn."""

    def __init__(self, algorithm: str, framework: str, seed: int) -> None:
        settings = {
            "algorithm": algorithm,
            "framework": framework,
            "env": ENV_ID,
            "runtime": "inline",
            "seed": seed,
            "stop": {"env_steps": 1 << 40},
        }
        self._trainer = rlcore.Trainer(settings)
        self._env_steps = 0
        #: Of each turn: environment steps by second and by second of CPU time.
        self.rates: list[tuple[float, float]] = []

    def turn(self, env_steps: int) -> None:
        """So many environment steps at least."""
        start, watch = self._env_steps, Stopwatch()
        while self._env_steps < start + env_steps:
            self._env_steps = self._trainer.step()["env_steps"]
        seconds = watch.read()
        self.rates.append(tuple((self._env_steps - start) / spent for spent in seconds))

    @property
    def traces(self) -> int:
        """How often a function of the graph that learns was traced; 0 without TensorFlow."""
        graphs = self._trainer.optimizers[0].learner.graphs.values()
        return sum(getattr(graph, "traces", 0) for graph in graphs)

    def close(self) -> None:
        self._trainer.close()


def rows(algorithm: str, turns: int, env_steps: int) -> list[dict[str, Any]]:
    """A row for each framework; under TensorFlow with its ratios to torch."""
    contestants = {framework: Contestant(algorithm, framework, seed=1) for framework in FRAMEWORKS}
    traces = {}
    for turn in range(turns + 1):
        for framework, contestant in contestants.items():
            contestant.turn(env_steps)
            if turn == 0:
                traces[framework] = contestant.traces
    found = []
    base = contestants["torch"].rates[1:]
    for framework, contestant in contestants.items():
        own = contestant.rates[1:]
        row = {"task": "frameworks", "algorithm": algorithm, "framework": framework}
        for i, name in enumerate(("", "_cpu")):
            row[f"steps_per{name}_s"] = round(statistics.median(rates[i] for rates in own), 1)
            ratios = [rates[i] / other[i] for rates, other in zip(own, base, strict=True)]
            row[f"of_torch{name}"] = round(statistics.median(ratios), 3)
        found.append({**row, "traces": [traces[framework], contestant.traces]})
        contestant.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=7, help="of each that are counted (default: %(default)s)")
    parser.add_argument("--env-steps", type=int, default=8000, help="of each turn (default: %(default)s)")
    options = parser.parse_args()
    for algorithm in ALGORITHMS:
        for row in rows(algorithm, options.turns, options.env_steps):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
