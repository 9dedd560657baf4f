"""Packing batches of Pong, beside LZ4 on the same bytes.

    python benchmarks/packing.py

A random policy plays eight Pongs with the preprocessing of DeepMind and four stacked frames; a batch has 1024 rows and
every column that a sample has. ``rlcore.packing`` keeps each frame once and leaves alone what does not shrink;
``lz4.block`` compresses the bytes of every column as they are. Contestants take turns on one core; seconds are those of
the processor, ratios medians over the turns, and those of the best turns. The goal: at least 0.8 of the speed of LZ4.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import ale_py
import gymnasium
import lz4.block
import numpy as np

from rlcore.batch import SampleBatch
from rlcore.packing import pack
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.sampling.collect import Fragment
from rlcore.testing import LinearPG

Contestant = tuple[str, Callable[[], Any]]

GAMES, STEPS, LEAST = 8, 128, 0.8


def pong() -> SampleBatch:
    """The third sample: past the still picture that games begin with."""
    gymnasium.register_envs(ale_py)
    evaluator = PolicyEvaluator(
        env="ALE/Pong-v5",
        env_settings={"atari": True, "frame_stack": 4},
        graph=LinearPG,
        num_envs=GAMES,
        collect=Fragment(STEPS),
        rng=0,
    )
    for _ in range(3):
        batch = evaluator.sample()
    assert isinstance(batch, SampleBatch)
    return batch


def columns(batch: SampleBatch) -> list[Any]:
    return [np.ascontiguousarray(column) for column in (*batch.rows.values(), *batch.cuts.values())]


def timed(call: Callable[[], Any]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def compare(base: Contestant, own: Contestant, size: int, rounds: int) -> None:
    """Has the two take turns, and prints how many bytes of the batch each of them gets through in a second."""
    seconds: dict[str, list[float]] = {base[0]: [], own[0]: []}
    for _ in range(rounds):
        for name, call in (base, own):
            seconds[name].append(timed(call))
    ratio = statistics.median(one / other for one, other in zip(seconds[base[0]], seconds[own[0]], strict=True))
    for name, spent in seconds.items():
        best = min(seconds[base[0]]) / min(spent)
        told = f"  {ratio:.2f} of it, best turns {best:.2f} (goal: {LEAST})" if name == own[0] else ""
        print(f"  {name:22}{size / statistics.median(spent) / 1e9:6.2f} GB/s{told}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=51, help="turns (default: %(default)s)")
    options = parser.parse_args()
    batch = pong()
    plain, packed = columns(batch), pack(batch)
    blocks = [lz4.block.compress(column) for column in plain]
    again = packed.unpack()
    assert all(np.array_equal(one, other) for one, other in zip(plain, columns(again), strict=True))
    size, kept = sum(column.nbytes for column in plain), sum(map(len, blocks))
    print(f"{len(batch)} rows of Pong, {size / 1e6:.1f} MB; one core:")
    compare(
        ("lz4.block.compress", lambda: [lz4.block.compress(column) for column in plain]),
        ("pack", lambda: pack(batch)),
        size,
        options.rounds,
    )
    compare(
        ("lz4.block.decompress", lambda: [lz4.block.decompress(block) for block in blocks]),
        ("unpack", packed.unpack),
        size,
        options.rounds,
    )
    print(f"  smaller by {size / kept:.0f} (lz4.block) and {size / packed.nbytes:.0f} (packed)")


if __name__ == "__main__":
    main()
