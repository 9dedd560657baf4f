"""Atari's emulators: frames by second of the same games, with the same preprocessing, in every way to play them.

    python benchmarks/atari.py

Separate games of Gymnasium (one after the other, in threads, in processes), ALE's own vector environment, and, where it
is installed, EnvPool in lockstep and asynchronously. All show stacks of four frames of 84 x 84; actions are random. The
contestants take turns; of each the best turn counts, by the clock, and by the time of processors for what runs in this
process alone, which other work on the machine disturbs less. A decision is of four frames.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from rlcore.env import DEFAULT_GROUP, BatchedEnv
from rlcore.envs import build_env

FRAMES = 4
SHOWN: dict[str, Any] = {"atari": True, "frame_stack": 4}


class Way(NamedTuple):
    """How games are played."""

    env: str
    settings: Mapping[str, Any]
    #: Whether all of it happens in this process.
    here: bool = True


def ways(game: str, threads: int) -> dict[str, Way]:
    gym, pool = f"gym:ALE/{game}-v5", f"envpool:{game}-v5"
    found = {"ALE's vector environment": Way(gym, {"vectorization": "native", "workers": threads})}
    if threads == 1:
        found["separate games"] = Way(gym, {})
    else:
        found["separate games, threads"] = Way(gym, {"vectorization": "thread", "workers": threads})
        found["separate games, processes"] = Way(gym, {"vectorization": "process", "workers": threads}, False)
    if importlib.util.find_spec("envpool") is not None:
        found["EnvPool"] = Way(pool, {"num_threads": threads})
        found["EnvPool, half of the copies at a time"] = Way(pool, {"num_threads": threads, "batch_size": -1})
    return found


def player(way: Way, copies: int) -> Callable[[int], None]:
    """Plays at least so many decisions of all copies together."""
    own = {key: copies // 2 if value == -1 else value for key, value in way.settings.items()}
    env: BatchedEnv = build_env(way.env, copies, {**SHOWN, **own})
    env.reset(0)
    rng, n = np.random.default_rng(0), env.groups[DEFAULT_GROUP][1].n  # type: ignore[attr-defined]
    waiting = env.poll(None)[DEFAULT_GROUP]

    def play(decisions: int) -> None:
        nonlocal waiting
        while decisions > 0:
            rows = np.flatnonzero(waiting.needs_action)
            if len(rows):
                env.send({DEFAULT_GROUP: (waiting.slot[rows], rng.integers(n, size=len(rows)))})
            waiting = env.poll(None)[DEFAULT_GROUP]
            decisions -= len(rows)

    return play


def measure(game: str, threads: int, copies: int, decisions: int, rounds: int) -> None:
    contestants = ways(game, threads)
    players = {name: player(way, copies) for name, way in contestants.items()}
    clock: dict[str, list[float]] = {name: [] for name in players}
    processor: dict[str, list[float]] = {name: [] for name in players}
    for _ in range(rounds):
        for name, play in players.items():
            began, used = time.perf_counter(), time.process_time()
            play(decisions)
            clock[name].append(time.perf_counter() - began)
            processor[name].append(time.process_time() - used)
    print(f"{game}, {copies} copies, {threads} thread{'s' * (threads > 1)}: frames/s by the clock, by processor time")
    for name, way in contestants.items():
        frames = FRAMES * decisions
        busy = f"{frames / min(processor[name]):8.0f}" if way.here else " " * 8
        print(f"  {name:40} {frames / min(clock[name]):8.0f} {busy}".rstrip())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="Pong", help="as in the ids (default: %(default)s)")
    parser.add_argument("--copies", type=int, default=16, help="of the game (default: %(default)s)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="threads or processes (default: 1 2)")
    parser.add_argument("--decisions", type=int, default=800, help="in a turn (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="turns (default: %(default)s)")
    options = parser.parse_args()
    for threads in options.threads:
        measure(options.game, threads, options.copies, options.decisions, options.rounds)


if __name__ == "__main__":
    main()
