"""Replay buffers, beside cpprb (C++) and beside bare indexed copies.

    python benchmarks/replay.py

Small: transitions of four floats and their successors in a ring of 50,000, drawn by priority; what cpprb is given ours
is given as well, in batches of the same sizes. Images: stacks of four frames of 84x84 in a ring of 8,000, drawn alike
with their successors, beside indexing two arrays that hold both whole; and how much memory either takes. The images
move as those of Pong do: a ball and two rackets before a still picture.

Contestants take turns on one core; seconds are those of the processor, ratios medians over the turns. Without cpprb
(``pip install cpprb``) ours is measured alone. The goals: as many draws of 512 and inserts of 64 a second as cpprb,
half its draws of 32, 5 million priority updates a second; 0.9 of the bare copy in a quarter of its memory.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from rlcore.batch import SampleBatch
from rlcore_replay import ReplayBuffer

SMALL, LARGE = 50_000, 8_000
ALPHA, BETA, INSERTED, SIZES = 0.6, 0.4, 64, (32, 512)
STACK, SIDE, EPISODE = 4, 84, 1000

#: By contestant, calls that are timed.
Calls = Mapping[str, Callable[[], Any]]


def transitions(n: int, rng: np.random.Generator) -> dict[str, Any]:
    return {
        "obs": rng.random((n, 4), np.float32),
        "actions": rng.integers(0, 2, n),
        "rewards": np.ones(n, np.float32),
        "last_obs": rng.random((n, 4), np.float32),
        "terminated": np.zeros(n, bool),
    }


def as_batch(columns: Mapping[str, Any]) -> SampleBatch:
    rows = {name: columns[name] for name in ("obs", "actions", "rewards", "terminated")}
    n = len(rows["obs"])
    ends = {"last_obs": columns["last_obs"], "bootstrap": ~columns["terminated"]}
    return SampleBatch(
        {**rows, "truncated": np.zeros(n, bool)}, {"start": np.arange(n), "length": np.ones(n, np.int64), **ends}
    )


def ours(columns: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Callable[[], Any]]:
    buffer, batch = ReplayBuffer(SMALL, alpha=ALPHA), as_batch(columns)
    while len(buffer) < SMALL:
        buffer.add(batch)
    return {
        f"insert {INSERTED}": lambda: buffer.add(batch),
        **{f"draw {n}": partial(buffer.sample, n, rng, BETA) for n in SIZES},
        **{f"update {n}": partial(buffer.update_priorities, *errors_of(n, rng)) for n in SIZES},
    }


def errors_of(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Items, and what their priorities are to be made of."""
    return rng.integers(0, SMALL, n), rng.random(n)


def theirs(columns: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Callable[[], Any]]:
    import cpprb

    spec: dict[str, Any] = {
        "obs": {"shape": (4,), "dtype": np.float32},
        "act": {"dtype": np.int64},
        "rew": {"dtype": np.float32},
        "next_obs": {"shape": (4,), "dtype": np.float32},
        "done": {"dtype": np.float32},
    }
    buffer = cpprb.PrioritizedReplayBuffer(SMALL, spec, alpha=ALPHA)
    batch = {
        "obs": columns["obs"],
        "act": columns["actions"],
        "rew": columns["rewards"],
        "next_obs": columns["last_obs"],
        "done": columns["terminated"].astype(np.float32),
    }
    for _ in range(SMALL // INSERTED + 1):
        buffer.add(**batch)
    return {
        f"insert {INSERTED}": lambda: buffer.add(**batch),
        **{f"draw {n}": partial(buffer.sample, n, beta=BETA) for n in SIZES},
        **{f"update {n}": partial(buffer.update_priorities, *errors_of(n, rng)) for n in SIZES},
    }


def screens(rng: np.random.Generator) -> np.ndarray:
    """The frames of an episode, ``[EPISODE + STACK, 84, 84]``."""
    picture = rng.integers(0, 255, (SIDE, SIDE), np.uint8)
    frames = np.repeat(picture[None], EPISODE + STACK, axis=0)
    for i, frame in enumerate(frames):
        x, y = int(40 + 39 * np.sin(i / 7)), int(40 + 39 * np.sin(i / 11))
        frame[y : y + 3, x : x + 3] = 236
        frame[y : y + 12, 2:5] = frame[80 - y : 92 - y, 79:82] = 130
    return frames


def pieces(first: int, size: int, eps_id: int, frames: np.ndarray) -> SampleBatch:
    """``size`` steps of the episode from its step ``first`` on."""
    index = first + np.arange(size + 1)[:, None] + np.arange(STACK)
    stacks = frames[index]
    nothing = np.zeros(size, bool)
    rows = {
        "obs": stacks[:-1],
        "actions": np.zeros(size, np.int64),
        "rewards": np.zeros(size, np.float32),
        "terminated": nothing,
        "truncated": nothing,
        "t": np.arange(first, first + size, dtype=np.int32),
    }
    cuts = {"start": [0], "length": [size], "slot": [0], "agent_id": [0], "eps_id": [eps_id], "bootstrap": [True]}
    return SampleBatch(rows, {**{name: np.array(value) for name, value in cuts.items()}, "last_obs": stacks[-1:]})


def images(rng: np.random.Generator) -> tuple[ReplayBuffer, np.ndarray, np.ndarray]:
    """A full buffer, and arrays of the same observations and of their successors."""
    buffer, eps_id, stored = ReplayBuffer(LARGE), 0, 0
    shape = (LARGE, STACK, SIDE, SIDE)
    whole, after = np.empty(shape, np.uint8), np.empty(shape, np.uint8)
    while stored < LARGE:
        frames, eps_id = screens(rng), eps_id + 1
        for first in range(0, EPISODE, INSERTED):
            batch = pieces(first, min(INSERTED, EPISODE - first, LARGE - stored), eps_id, frames)
            end = stored + len(batch)
            whole[stored:end] = batch["obs"]
            after[stored:end] = np.concatenate([batch["obs"][1:], batch.cuts["last_obs"]])
            buffer.add(batch)
            stored = end
            if stored == LARGE:
                break
    same = buffer.take(np.arange(LARGE))
    assert np.array_equal(same["obs"], whole) and np.array_equal(same.cuts["last_obs"], after)
    return buffer, whole, after


def turns(contestants: Calls, rounds: int, calls: int) -> dict[str, float]:
    """The median seconds of one call of each; of two, their ratio as well, under the empty name."""
    spent: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, call in contestants.items():
            started = time.process_time()
            for _ in range(calls):
                call()
            spent[name].append((time.process_time() - started) / calls)
    found = {name: statistics.median(seconds) for name, seconds in spent.items()}
    if len(spent) == 2:
        base, own = spent.values()
        found[""] = statistics.median(one / other for one, other in zip(base, own, strict=True))
    return found


def show(what: str, size: int, found: Mapping[str, float], goal: str) -> None:
    rates = "   ".join(f"{name} {size / seconds:12,.0f}/s" for name, seconds in found.items() if name)
    told = f"   {found['']:.2f} of it" if "" in found else ""
    print(f"  {what:12}{rates}{told}   (goal: {goal})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=31, help="turns (default: %(default)s)")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    columns = transitions(INSERTED, rng)
    own = ours(columns, rng)
    peer = theirs(columns, rng) if importlib.util.find_spec("cpprb") else {}
    goals = {"insert 64": "1.0", "draw 32": "0.5", "draw 512": "1.0", "update 32": "-", "update 512": "5,000,000/s"}
    print(f"prioritised, four floats, {SMALL:,} transitions; one core:")
    for name, call in own.items():
        contestants = {**({"cpprb": peer[name]} if peer else {}), "rlcore": call}
        show(name, int(name.split()[1]), turns(contestants, options.rounds, 200), goals[name])
    buffer, whole, after = images(rng)
    print(f"stacks of {STACK} frames of {SIDE}x{SIDE}, {LARGE:,} transitions with their successors; one core:")
    for n in SIZES:

        def bare(n: int = n) -> Any:
            places = rng.integers(0, LARGE, n)
            return whole[places], after[places]

        found = turns({"bare copy": bare, "rlcore": partial(buffer.sample, n, rng)}, options.rounds, 2048 // n)
        show(f"draw {n}", n, found, "0.9")
    share = buffer.nbytes / whole.nbytes
    print(f"  memory      {buffer.nbytes / 1e6:.0f} MB, {share:.2f} of one of the two arrays   (goal: 0.25)")


if __name__ == "__main__":
    main()
