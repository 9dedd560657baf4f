"""How many members of a population are evaluated a second: ours, and a plain loop that acts with torch one by one.

    python benchmarks/es.py [--evaluators N] [--turns N]

Members are those of the recipe ``es`` on CartPole-v1, around the weights of the beginning, whose episodes are short,
and around learnt ones, whose episodes are long. The plain loop plays members of the same generation, each with its
weights in a torch module, in one environment of Gymnasium. Both take turns, so that whatever else this machine does
slows both. Prints a table; figures are evaluations a second, and those of the processor's time of this process where
ours does all within it (``--evaluators 0``).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import torch

from rlcore.trainer import Trainer
from rlcore_es.noise import noise_table, windows

ENV = "CartPole-v1"
#: What is learnt before the second measurement.
LEARNT = 475.0
#: Members that the plain loop plays in a turn: with short episodes, and with long ones.
PLAIN_MEMBERS = {"at first": 60, "learnt": 6}


class Rate(NamedTuple):
    """Evaluations in a second by the clock and by the processor's time."""

    wall: float
    processor: float


def measured(evaluations: int, do: Callable[[], None]) -> Rate:
    wall, processor = time.perf_counter(), time.process_time()
    do()
    return Rate(evaluations / (time.perf_counter() - wall), evaluations / (time.process_time() - processor))


def ours(trainer: Trainer) -> Rate:
    """One generation of the optimizer, with everything that belongs to it."""
    config: Any = trainer.optimizers[0].config
    return measured(2 * config.pairs + config.evaluations, lambda: trainer.optimizers[0].step() and None)


def plain(trainer: Trainer, members: int) -> Rate:
    """Members of the next generation, one after the other."""
    optimizer: Any = trainer.optimizers[0]
    population = optimizer._population
    layout = population.layouts["default"]
    table = noise_table(population.table, population.seed)
    noise = windows(table, population.indexes(optimizer._generation)[:members], population.size)
    centre = layout.flatten(optimizer.get_weights()["default"])
    env = gymnasium.make(ENV)

    def play_all() -> None:
        for own in noise:
            play(env, module(layout.weights(centre + population.noise_std * own)))

    return measured(members, play_all)


def module(weights: dict[str, Any]) -> torch.nn.Sequential:
    """The policy's network with these weights."""
    layers: list[torch.nn.Module] = []
    names = sorted({name.rpartition(".")[0] for name in weights}, key=lambda name: (name.endswith("out"), name))
    for name in names:
        weight, bias = (torch.from_numpy(weights[f"{name}.{kind}"]) for kind in ("weight", "bias"))
        layer = torch.nn.Linear(*weight.shape)
        layer.weight, layer.bias = torch.nn.Parameter(weight.T.contiguous()), torch.nn.Parameter(bias)
        layers += [layer, torch.nn.Tanh()]
    return torch.nn.Sequential(*layers[:-1])


@torch.no_grad()
def play(env: Any, policy: torch.nn.Module) -> float:
    """One episode."""
    obs, _ = env.reset()
    total, over = 0.0, False
    while not over:
        action = int(policy(torch.from_numpy(obs)).argmax())
        obs, reward, terminated, truncated, _ = env.step(action)
        total += float(reward)
        over = terminated or truncated
    return total


def learn(trainer: Trainer) -> None:
    """Until episodes are long."""
    while (trainer.step()["return_mean"] or 0.0) < LEARNT:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluators", type=int, default=2, help="on Ray; 0 is in this process (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=5, help="of each (default: %(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    runtime = "ray" if options.evaluators else "inline"
    config = {"algorithm": "es", "framework": "torch", "env": ENV, "seed": 1, "runtime": runtime}
    with Trainer({**config, "evaluators": {"count": options.evaluators}}) as trainer:
        trainer.step()
        print("| CartPole-v1 | es | plain torch loop | times | times, processor |\n| --- |" + " --: |" * 4)
        for what, members in PLAIN_MEMBERS.items():
            if what == "learnt":
                learn(trainer)
            rates = [(plain(trainer, members), ours(trainer)) for _ in range(options.turns)]
            loop, own = ([statistics.median(pair[i].wall for pair in rates) for i in (0, 1)])
            times = statistics.median(two.wall / one.wall for one, two in rates)
            by_processor = statistics.median(two.processor / one.processor for one, two in rates)
            shown = "" if options.evaluators else f"{by_processor:.1f}"
            print(f"| {what} | {own:,.0f}/s | {loop:,.0f}/s | {times:.1f} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
