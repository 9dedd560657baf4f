"""The two synchronous optimizers on the same work: gradients computed in the evaluators, or in the driver.

    python benchmarks/synchronous.py

Liang et al. 2018 (RLlib), table 3, as far as this machine goes: the shapes of Humanoid (376 observations, 17 actions,
two networks of 256 x 256), PPO, the same samples, epochs and minibatches. ``allreduce`` computes gradients in the
evaluators and averages them; ``multi_gpu`` has all samples in the driver. Given are rows learnt from by second of
learning, and environment steps by second of everything. Contestants take turns.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

import gymnasium
import numpy as np

from rlcore.trainer import Trainer


class Shapes(gymnasium.Env[Any, Any]):
    """Observations and actions of Humanoid's shapes, and no simulation: what is measured is learning."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (376,), np.float32)
    action_space = gymnasium.spaces.Box(-0.4, 0.4, (17,), np.float32)

    def __init__(self) -> None:
        self._seen = np.random.default_rng(0).standard_normal((64, 376)).astype(np.float32)
        self._t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._t = 0
        return self._seen[int(self.np_random.integers(64))], {}

    def step(self, action: Any) -> Any:
        self._t += 1
        return self._seen[self._t % 64], float(action[0]), False, self._t == 200, {}


def trainer(optimizer: str, runtime: Any, options: argparse.Namespace) -> Trainer:
    return Trainer(
        {
            "algorithm": "ppo",
            "framework": "torch",
            "env": Shapes,
            "model": {"hidden": [256, 256]},
            "runtime": runtime,
            "evaluators": {"count": options.evaluators, "envs": 8, "fragment": options.rows // 8 // options.evaluators},
            "optimizer": {"name": optimizer, "epochs": options.epochs, "minibatch_size": options.minibatch},
            "seed": 1,
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluators", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--rows", type=int, default=4096, help="of one batch (default: %(default)s)")
    parser.add_argument("--minibatch", type=int, default=2048, help="rows (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=4, help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="turns (default: %(default)s)")
    options = parser.parse_args()
    # The evaluators of both are there at the same time, and half of them at work.
    settings: dict[str, Any] = {"inline": "inline", "ray": {"name": "ray", "cpus": 2 * options.evaluators}}
    pairs = [(optimizer, runtime) for runtime in settings for optimizer in ("allreduce", "multi_gpu")]
    trainers = {(optimizer, runtime): trainer(optimizer, settings[runtime], options) for optimizer, runtime in pairs}
    learnt: dict[Any, list[float]] = {pair: [] for pair in pairs}
    sampled: dict[Any, list[float]] = {pair: [] for pair in pairs}
    for own in trainers.values():
        own.step()
    for _ in range(options.rounds):
        for pair, own in trainers.items():
            row = own.step()
            learnt[pair].append(options.rows * options.epochs / row["learn_s"])
            sampled[pair].append(row["env_steps_per_s"])
    print("| optimizer | runtime | rows learnt from /s | environment steps/s |\n| --- | --- | --: | --: |")
    for pair in pairs:
        rows, steps = statistics.median(learnt[pair]), statistics.median(sampled[pair])
        print(f"| {pair[0]} | {pair[1]} | {rows:,.0f} | {steps:,.0f} |")
    for own in trainers.values():
        own.close()


if __name__ == "__main__":
    main()
