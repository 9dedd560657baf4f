"""How many members of a population are evaluated a second: ours, and a plain loop that acts with torch one by one.

    python benchmarks/es.py [--turns N] [--cores 1 2] [--env ENV ...]

Members are those of a generation of the recipe ``es``, around the weights of the beginning, whose episodes on CartPole
are short, and around learnt ones, whose episodes are long. Ours is whole steps of the optimizer, at the end of each of
which it is put back to where it was. The plain loop plays members of the same generation, each with its weights in a
torch module, in one environment of Gymnasium (for ``batched:cartpole`` too: one slot of that costs more). Both take
turns, so that whatever else this machine does slows both.

On one core both are in this process, and ratios are also by its processor's time. On two ours has two evaluators on
Ray, and the plain loop two processes, half of its members in each. Prints a JSON line for each case.

Goal: 3 times the evaluations of the plain loop.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from es_plain import Spent, Work, play_all

from rlcore.trainer import Trainer


class Case(NamedTuple):
    """Members of the recipe on ``env``, once ``goal`` is the mean return of its members; the plain loop's ``twin``."""

    name: str
    env: str
    twin: str
    goal: float | None
    #: Generations of ours and members of the plain loop in a turn, on one core.
    generations: int
    members: int


CASES = [
    Case("CartPole-v1, short episodes", "CartPole-v1", "CartPole-v1", None, 4, 200),
    Case("CartPole-v1, long episodes", "CartPole-v1", "CartPole-v1", 475.0, 1, 16),
    Case("Pendulum-v1", "Pendulum-v1", "Pendulum-v1", None, 2, 24),
    Case("batched:cartpole, short episodes", "batched:cartpole", "CartPole-v1", None, 8, 200),
    Case("batched:cartpole, long episodes", "batched:cartpole", "CartPole-v1", 475.0, 4, 16),
]

#: How the plain loop's members are played.
Players = Callable[[Sequence[Work]], Spent]


class Rates(NamedTuple):
    """Evaluations in a second of a turn, by the clock and by the processor's time."""

    wall: float
    processor: float


def ours(trainer: Trainer, generations: int) -> Rates:
    """The same generation again and again, with everything that belongs to it."""
    optimizer: Any = trainer.optimizers[0]
    config, state = optimizer.config, optimizer.get_state()
    wall = processor = 0.0
    for _ in range(generations):
        started = time.perf_counter(), time.process_time()
        optimizer.step()
        wall += time.perf_counter() - started[0]
        processor += time.process_time() - started[1]
        optimizer.set_state(state)
    episodes = generations * (2 * config.pairs * config.episodes + config.evaluations * config.episodes)
    return Rates(episodes / wall, episodes / processor)


def plain(trainer: Trainer, env: str, members: int, cores: int, players: Players) -> Rates:
    """Members of the same generation, in pairs."""
    optimizer: Any = trainer.optimizers[0]
    population = optimizer._population
    layout = population.layouts["default"]
    indexes = np.resize(np.repeat(population.indexes(optimizer._generation), 2), members * cores)
    signs = np.resize([1.0, -1.0], len(indexes))
    whole = Work(
        env,
        layout,
        layout.flatten(optimizer.get_weights()["default"]),
        (population.table, population.seed),
        population.noise_std,
        indexes.tolist(),
        signs.tolist(),
    )
    parts = [whole._replace(indexes=whole.indexes[i::cores], signs=signs[i::cores].tolist()) for i in range(cores)]
    spent = players(parts)
    return Rates(len(indexes) / spent.wall, len(indexes) / spent.processor)


def here(parts: Sequence[Work]) -> Spent:
    (work,) = parts
    return play_all(work)


def in_processes(pool: ProcessPoolExecutor) -> Players:
    def play(parts: Sequence[Work]) -> Spent:
        found = list(pool.map(play_all, parts))
        # What it takes them to hear of their work is not counted.
        return Spent(max(one.wall for one in found), sum(one.processor for one in found))

    return play


def rows(envs: Sequence[str], cores: int, turns: int, seed: int) -> Iterator[dict[str, Any]]:
    """Of all cases of ``envs``; those of one environment follow each other in one run."""
    with ProcessPoolExecutor(cores, multiprocessing.get_context("spawn")) as pool:
        players = here if cores == 1 else in_processes(pool)
        for env in envs:
            count, runtime = (0, "inline") if cores == 1 else (cores, "ray")
            config = {"algorithm": "es", "framework": "torch", "env": env, "seed": seed, "runtime": runtime}
            with Trainer({**config, "evaluators": {"count": count}}) as trainer:
                trainer.step()
                for case in (case for case in CASES if case.env == env):
                    while case.goal is not None and (trainer.step()["return_mean"] or 0.0) < case.goal:
                        pass
                    yield row(case, cores, compare(trainer, case, cores, turns, players))


def compare(trainer: Trainer, case: Case, cores: int, turns: int, players: Players) -> list[tuple[Rates, Rates]]:
    """The rates of ours and of the plain loop, turn by turn after one that is not counted."""
    found = []
    for _ in range(turns + 1):
        own = ours(trainer, case.generations * cores)
        found.append((own, plain(trainer, case.twin, case.members, cores, players)))
    return found[1:]


def row(case: Case, cores: int, rates: Sequence[tuple[Rates, Rates]]) -> dict[str, Any]:
    """Medians over the turns."""
    found = {
        "task": "es",
        "case": case.name,
        "cores": cores,
        "evaluations_per_s": round(statistics.median(own.wall for own, _ in rates), 1),
        "plain_per_s": round(statistics.median(loop.wall for _, loop in rates), 1),
        "times": round(statistics.median(own.wall / loop.wall for own, loop in rates), 2),
    }
    if cores == 1:
        found["times_cpu"] = round(statistics.median(own.processor / loop.processor for own, loop in rates), 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5, help="of each (default: %(default)s)")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2], help="(default: 1 2)")
    envs = list(dict.fromkeys(case.env for case in CASES))
    parser.add_argument("--env", choices=envs, nargs="+", default=envs, help="(default: all)")
    options = parser.parse_args()
    for cores in options.cores:
        for found in rows(options.env, cores, options.turns, seed=1):
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
