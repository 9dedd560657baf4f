"""The two synchronous optimizers on the same work: gradients computed in the evaluators, or in the driver.

    python benchmarks/synchronous.py [--shapes humanoid small]

Liang et al. 2018 (RLlib), table 3, as far as this machine goes: PPO, the same samples, epochs and minibatches, with the
shapes of Humanoid (376 observations, 17 actions, two networks of 256 x 256) and with small ones (4 observations, one
action, 64 x 64). ``allreduce`` computes gradients in the evaluators and averages them, by the runtime's tree of actors
or by gloo; ``multi_gpu`` has all samples in the driver. Given are updates and rows learnt from by second of learning,
and environment steps by second of everything. Contestants take turns.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from rlcore.trainer import Trainer


class Shapes(gymnasium.Env[Any, Any]):
    """Observations and actions of certain shapes, and no simulation: what is measured is learning."""

    def __init__(self, observations: int, actions: int) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (observations,), np.float32)
        self.action_space = gymnasium.spaces.Box(-0.4, 0.4, (actions,), np.float32)
        self._seen = np.random.default_rng(0).standard_normal((64, observations)).astype(np.float32)
        self._t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._t = 0
        return self._seen[int(self.np_random.integers(64))], {}

    def step(self, action: Any) -> Any:
        self._t += 1
        return self._seen[self._t % 64], float(action[0]), False, self._t == 200, {}


class Contestant(NamedTuple):
    """An optimizer on a runtime, and by what it averages gradients; None: by the runtime."""

    optimizer: str
    runtime: str
    collective: str | None = None


CONTESTANTS = [
    Contestant("allreduce", "inline"),
    Contestant("multi_gpu", "inline"),
    Contestant("allreduce", "ray"),
    Contestant("allreduce", "ray", "gloo"),
    Contestant("multi_gpu", "ray"),
]
#: Observations, actions, hidden units of each of two layers, rows of a batch and of a minibatch.
SHAPES = {"humanoid": (376, 17, 256, 4096, 2048), "small": (4, 1, 64, 1024, 128)}


def trainer(one: Contestant, shape: str, options: argparse.Namespace) -> Trainer:
    observations, actions, hidden, rows, minibatch = SHAPES[shape]
    optimizer = {"name": one.optimizer, "epochs": options.epochs, "minibatch_size": minibatch}
    # The evaluators of all are there at the same time, and a few of them at work.
    cpus = options.evaluators * sum(other.runtime == "ray" for other in CONTESTANTS)
    return Trainer(
        {
            "algorithm": "ppo",
            "framework": "torch",
            "env": Shapes,
            "env_settings": {"observations": observations, "actions": actions},
            "model": {"hidden": [hidden, hidden]},
            "runtime": {"name": "ray", "cpus": cpus} if one.runtime == "ray" else one.runtime,
            "evaluators": {"count": options.evaluators, "envs": 8, "fragment": rows // 8 // options.evaluators},
            "optimizer": optimizer if one.collective is None else {**optimizer, "collective": one.collective},
            "seed": 1,
        }
    )


def compare(shape: str, options: argparse.Namespace) -> None:
    """Prints a table."""
    _, _, _, rows, minibatch = SHAPES[shape]
    trainers = {one: trainer(one, shape, options) for one in CONTESTANTS}
    learn_s: dict[Contestant, list[float]] = {one: [] for one in CONTESTANTS}
    env_steps: dict[Contestant, list[float]] = {one: [] for one in CONTESTANTS}
    for turn in range(options.rounds + 2):
        for one, own in trainers.items():
            row = own.step()
            if turn > 1:  # the first two import, form groups and make recordings
                learn_s[one].append(row["learn_s"])
                env_steps[one].append(row["env_steps_per_s"])
    print(f"\n| {shape} | averaged by | runtime | updates/s | rows learnt from /s | environment steps/s |")
    print("| --- | --- | --- | --: | --: | --: |")
    for one in CONTESTANTS:
        seconds, steps = statistics.median(learn_s[one]), statistics.median(env_steps[one])
        learnt = options.epochs * rows / seconds
        way = one.collective or ("tree of actors" if one.optimizer == "allreduce" else "")
        figures = f"{learnt / minibatch:,.1f} | {learnt:,.0f} | {steps:,.0f}"
        print(f"| {one.optimizer} | {way} | {one.runtime} | {figures} |", flush=True)
    for own in trainers.values():
        own.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", choices=SHAPES, nargs="+", default=list(SHAPES), help="(default: all)")
    parser.add_argument("--evaluators", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=4, help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="turns (default: %(default)s)")
    options = parser.parse_args()
    for shape in options.shapes:
        compare(shape, options)


if __name__ == "__main__":
    main()
