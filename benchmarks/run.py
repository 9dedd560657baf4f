"""Measures ours beside its peers and its limits on this machine: ``make bench``.

PPO on CartPole-v1 end to end runs in a fresh process for each contestant and seed, the contestants in turns, imports
not counted; sampling alone, and training under torch and TensorFlow, take turns within one process. Prints tables, and
writes a JSON line for each figure.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
#: What is compared: the module and its function that trains.
CONTESTANTS = {
    "rlcore": ("ours", "train"),
    "rlcore-by-name": ("ours", "train_by_name"),
    "stable-baselines3": ("stable_baselines", "train"),
    "plain-torch": ("plain_torch", "train"),
}
BASE = "Stable-Baselines3"
Row = Mapping[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env-steps", type=int, default=102_400, help="of each training run (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="training runs of each contestant (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder for the JSON lines")
    parser.add_argument("--one", choices=CONTESTANTS, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(train(options.one, options.env_steps, options.seed)))
        return
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{datetime.now():%Y%m%d-%H%M%S}.jsonl"
    found: list[Row] = []
    with path.open("w") as file:
        for row in [machine(), *trainings(options.env_steps, options.seeds), *samplings(), *frameworks(), *evolution()]:
            file.write(json.dumps(row) + "\n")
            found.append(row)
    print("\n".join(report(found)))
    print(f"\nJSON lines: {path}")


def machine() -> Row:
    """What it runs on, and how fast a plain Python loop is there now."""
    started = time.perf_counter()
    sum(range(5_000_000))
    speed = time.perf_counter() - started
    return {"task": "machine", "cores": os.cpu_count(), "python": platform.python_version(), "loop_s": round(speed, 3)}


def trainings(env_steps: int, seeds: int) -> Iterator[Row]:
    for seed in range(seeds):
        for name in CONTESTANTS:
            command = ["run.py", "--one", name, "--env-steps", str(env_steps), "--seed", str(seed)]
            yield {"task": "ppo", **call(command)[0]}


def samplings() -> Iterator[Row]:
    yield from call(["sampling.py"])


def frameworks() -> Iterator[Row]:
    yield from call(["frameworks.py"])


def evolution() -> Iterator[Row]:
    yield from call(["es.py"])
    yield from call(["es_learning.py"])


def call(command: list[str]) -> list[dict[str, Any]]:
    """The JSON lines that a script of this folder prints."""
    settings = {**os.environ, "OMP_NUM_THREADS": "1"}
    print("running", *command, file=sys.stderr)
    done = subprocess.run(
        [sys.executable, *command], cwd=HERE, env=settings, stdout=subprocess.PIPE, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def train(name: str, env_steps: int, seed: int) -> Row:
    """One training run, in this process."""
    import torch

    torch.set_num_threads(1)
    module, function = CONTESTANTS[name]
    row: Row = getattr(importlib.import_module(module), function)(env_steps, seed).row()
    return row


def report(found: Iterable[Row]) -> Iterator[str]:
    """The tables, in Markdown."""
    found = list(found)
    runs: dict[str, list[Row]] = {}
    for row in found:
        if row["task"] == "ppo":
            runs.setdefault(row["contestant"], []).append(row)
    yield "\nPPO on CartPole-v1: 8 environments x 128 steps, 4 epochs, minibatches of 256, two 64x64 tanh networks\n"
    yield "| contestant | env steps/s (slowest - fastest) | x SB3 | x SB3 by CPU time | best mean of 100 | time |"
    yield "|---|--:|--:|--:|--:|---|"
    for name, rows in runs.items():
        speeds = [row["steps_per_s"] for row in rows]
        times = " | ".join(f"{times_base(rows, runs[BASE], key):.2f}" for key in ("steps_per_s", "steps_per_cpu_s"))
        best = statistics.median(row["best_return_mean"] for row in rows)
        speed = f"{statistics.median(speeds):,.0f} ({min(speeds):,.0f} - {max(speeds):,.0f})"
        yield f"| {name} {rows[0]['version']} | {speed} | {times} | {best:.0f} | {shares(rows)} |"
    yield "\nSampling alone, 64 CartPoles\n"
    yield "| contestant | env steps/s (slowest - fastest) | share of its limit | limit |"
    yield "|---|--:|--:|---|"
    for row in found:
        if row["task"] == "sampling":
            speed = f"{row['steps_per_s']:,.0f} ({row['slowest']:,.0f} - {row['fastest']:,.0f})"
            yield f"| {row['contestant']} | {speed} | {row['of_limit']:.2f} | {row['limit']} |"
    (split,) = [row for row in found if row["task"] == "sampling_shares"]
    parts = ", ".join(f"{name} {split[name]:.0%}" for name in ("environment", "acting", "bookkeeping"))
    yield f"\nWhere sampling spends its time: {parts}"
    yield "\nTensorFlow beside torch, on CartPole-v1 by the recipes' own settings, functions traced\n"
    yield "| algorithm | env steps/s, torch | TensorFlow | x torch | x torch by CPU time |"
    yield "|---|--:|--:|--:|--:|"
    for one, other in pairs_of_frameworks(found):
        speeds = f"{one['steps_per_s']:,.0f} | {other['steps_per_s']:,.0f}"
        yield f"| {one['algorithm']} | {speeds} | {other['of_torch']:.2f} | {other['of_torch_cpu']:.2f} |"
    yield from report_of_evolution(found)


def report_of_evolution(found: list[Row]) -> Iterator[str]:
    yield "\nEvolution strategies beside a plain torch loop that acts on one observation at a time\n"
    yield "| members of the recipe `es` | cores | evaluations/s | plain loop | x the loop | x by CPU time |"
    yield "|---|--:|--:|--:|--:|--:|"
    for row in found:
        if row["task"] == "es":
            speeds = f"{row['evaluations_per_s']:,.0f} | {row['plain_per_s']:,.0f} | {row['times']:.1f}"
            yield f"| {row['case']} | {row['cores']} | {speeds} | {row.get('times_cpu', '')} |"
    yield "\nThe recipe `es` with two evaluators on Ray until the mean of 100 episodes is 475, start-up aside\n"
    yield "| environment | seconds (fastest - slowest) | goal | env steps | mean of 100 afterwards (least) |"
    yield "|---|--:|--:|--:|--:|"
    runs: dict[str, list[Row]] = {}
    for row in found:
        if row["task"] == "es_learning":
            runs.setdefault(row["env"], []).append(row)
    for env, rows in runs.items():
        seconds = [row["seconds"] for row in rows]
        spent = f"{statistics.median(seconds):.1f} ({min(seconds):.1f} - {max(seconds):.1f}) | {rows[0]['goal_s']:.0f}"
        steps = statistics.median(row["env_steps"] for row in rows)
        yield f"| {env} | {spent} | {steps:,.0f} | {min(row['evaluation'] for row in rows):.0f} |"


def pairs_of_frameworks(found: list[Row]) -> Iterator[tuple[Row, Row]]:
    """By algorithm the row of torch and that of TensorFlow."""
    own = [row for row in found if row["task"] == "frameworks"]
    for one in own:
        if one["framework"] == "torch":
            yield one, next(
                row for row in own if row["algorithm"] == one["algorithm"] and row["framework"] != "torch"
            )


def times_base(rows: list[Row], base: list[Row], key: str) -> float:
    """How many times as fast as the base, run by run, since the runs took turns."""
    return statistics.median(own[key] / other[key] for own, other in zip(rows, base, strict=True))


def shares(rows: list[Row]) -> str:
    """How the time divides, where the contestant told."""
    totals = {name: sum(row["parts"][name] for row in rows) for name in rows[0]["parts"]}
    seconds = sum(row["seconds"] for row in rows)
    rest = 1.0 - sum(totals.values()) / seconds
    parts = [f"{name} {part / seconds:.0%}" for name, part in totals.items()]
    return ", ".join([*parts, f"rest {rest:.0%}"]) if parts else ""


if __name__ == "__main__":
    main()
