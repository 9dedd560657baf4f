"""Whether evolution around PPO and A3C pays: returns by environment steps, and seconds to a goal, run by run.

::

    python benchmarks/hybrids.py run ppo_es 1 --out runs.jsonl      # one run, one line more
    python benchmarks/hybrids.py table runs.jsonl
    python benchmarks/hybrids.py plot runs.jsonl docs/pictures/ppo-es.png

Runs of one comparison should take turns, seed by seed, as the machine may be busy with others. Seconds begin when the
trainer has been made.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import mean
from typing import Any

from rlcore.trainer import Trainer

#: The task of PPO and its hybrid; what both are given.
SWIMMER = {
    "env": "Swimmer-v5",
    "filter": "mean_std",
    "stop": {"env_steps": 300_000},
    "evaluation": {"every_env_steps": 50_000, "episodes": 5},
}
SAME: dict[str, Any] = {
    "policy": {"learning_rate": 3e-4},
    "model": {"hidden": [16, 16]},
    "evaluators": {"envs": 2, "fragment": 1000},
    "optimizer": {"epochs": 10, "minibatch_size": 256},
}
#: As PPO is mostly used in tasks of this kind.
OWN = {"policy": {"learning_rate": 3e-4}, "evaluators": {"envs": 2, "fragment": 1024}}
#: The task of A3C's hybrid and of plain evolution.
CATCH = {
    "env": "batched:catch",
    "env_settings": {"rows": 15, "columns": 7},
    "stop": {"evaluation_return_mean": 0.9, "env_steps": 3_000_000},
}
CONFIGS: dict[str, dict[str, Any]] = {
    "ppo_es": {"algorithm": "ppo_es", **SWIMMER},
    "ppo, same settings": {"algorithm": "ppo", **SWIMMER, **SAME},
    "ppo": {"algorithm": "ppo", **SWIMMER, **OWN},
    "ppo, 1e-3": {"algorithm": "ppo", **SWIMMER, **OWN, "policy": {"learning_rate": 1e-3}},
    "ppo, gamma 0.999": {"algorithm": "ppo", **SWIMMER, **OWN, "policy": {"learning_rate": 3e-4, "gamma": 0.999}},
    "a3c_es": {"algorithm": "a3c_es", **CATCH, "evaluation": {"every_env_steps": 12_000, "episodes": 100}},
    "es": {
        "algorithm": "es",
        **CATCH,
        "evaluation": {"every_env_steps": 50_000, "episodes": 100},
        "optimizer": {"noise_std": 0.1, "learning_rate": 0.05},
    },
}


def run(name: str, seed: int, out: Path) -> None:
    """One run; appended: ``evaluations`` of ``[env_steps, return]``, seconds of wall and of processor time."""
    config = {**CONFIGS[name], "framework": "torch", "runtime": "inline", "seed": seed}
    with Trainer(config) as trainer:
        wall, processor, evaluations, row = time.monotonic(), time.process_time(), list[list[float]](), dict[str, Any]()
        while not any(row.get(key) is not None and row[key] >= goal for key, goal in config["stop"].items()):
            row = trainer.step()
            if row["evaluation_return_mean"] is not None:
                evaluations.append([row["env_steps"], row["evaluation_return_mean"]])
        seconds = {"wall_s": time.monotonic() - wall, "processor_s": time.process_time() - processor}
    with out.open("a") as file:
        file.write(json.dumps({"name": name, "seed": seed, "evaluations": evaluations, **seconds}) + "\n")
    print(name, seed, evaluations[-1], seconds)


def read(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Runs by name."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in path.read_text().splitlines():
        one = json.loads(line)
        found.setdefault(one["name"], []).append(one)
    return found


def table(path: Path) -> None:
    """One line for each name: means over its runs."""
    for name, runs in read(path).items():
        last = [one["evaluations"][-1] for one in runs]
        cells = [
            name,
            f"{len(runs)} seeds",
            f"{mean(steps for steps, _ in last):,.0f} steps",
            f"returns {' '.join(f'{found:.1f}' for _, found in last)}",
            f"wall {mean(one['wall_s'] for one in runs):.1f} s",
            f"processor {mean(one['processor_s'] for one in runs):.1f} s",
        ]
        print(" | ".join(cells))


def plot(path: Path, picture: Path) -> None:
    """Every run thin, the mean of each name thick."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 3.6), dpi=120)
    for colour, (name, runs) in zip(("C0", "C1", "C2", "C3", "C4", "C5"), read(path).items(), strict=False):
        steps = [step for step, _ in runs[0]["evaluations"]]
        curves = [[found for _, found in one["evaluations"]][: len(steps)] for one in runs]
        for curve in curves:
            axes.plot(steps[: len(curve)], curve, colour, linewidth=0.7, alpha=0.5)
        axes.plot(steps, [mean(values) for values in zip(*curves, strict=False)], colour, linewidth=2.2, label=name)
    axes.set_xlabel("environment steps")
    axes.set_ylabel("return in evaluation")
    axes.legend(loc="upper left")
    figure.tight_layout()
    figure.savefig(picture)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run")
    one.add_argument("name", choices=CONFIGS)
    one.add_argument("seed", type=int)
    one.add_argument("--out", type=Path, default=Path("runs.jsonl"))
    told = commands.add_parser("table")
    told.add_argument("runs", type=Path)
    drawn = commands.add_parser("plot")
    drawn.add_argument("runs", type=Path)
    drawn.add_argument("picture", type=Path)
    chosen = parser.parse_args()
    if chosen.command == "run":
        run(chosen.name, chosen.seed, chosen.out)
    elif chosen.command == "table":
        table(chosen.runs)
    else:
        plot(chosen.runs, chosen.picture)


if __name__ == "__main__":
    main()
