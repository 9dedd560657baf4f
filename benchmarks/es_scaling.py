"""How far ES scales, with the costs measured here: 32 to 8192 workers on a simulated cluster, with and without a tree.

    python benchmarks/es_scaling.py [--costs FILE] [--calls FILE] [--out FOLDER] [--page FILE]

The optimizer and its branches are the real ones: their own work is timed as it runs, packing and unpacking of messages
included, and what their calls cost on Ray is added from a table; for so long they are busy. Evaluators are light: a
task takes the time that :mod:`es_costs` has measured, a pair of episodes of Humanoid, and outcomes are like real ones.
Each worker plays one pair in a generation: what is drawn is the time of a generation, whose size grows with the
workers.

Figure 8(a) of the RLlib paper (2018) has the minutes until Humanoid-v1 is solved. Beside it stands the time for a
number of episodes that is always the same, each relative to that with 256 workers: as if as many episodes were needed
whatever the size of a generation. The outcome with the costs and a picture go to the folder, tables to the page,
between the comments that mark them. With ``--costs`` nothing is measured but the driver and the branches, and clusters
whose outcome is in the file already are left out; ``--calls`` takes the costs of calls from a file of
``async_scaling.py``.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path

import es_costs
from async_scaling import write_tables
from es_cluster import Load, simulate
from es_costs import EsCosts
from matplotlib import pyplot
from ray_calls import CallCosts

WORKERS = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
DEFAULT = 64
#: Figure 8(a), mean minutes by workers: RLlib, and the reference with Redis, which did not finish with more.
PAPER = {
    "RLlib": {256: 42.6, 512: 27.2, 1024: 17.7, 2048: 9.65, 4096: 6.08, 8192: 4.17},
    "reference": {256: 65.0, 512: 36.6, 1024: 20.1},
}
BASE = 256
TREES = {0: "no tree", DEFAULT: f"at most {DEFAULT} below each", -1: "square root of the workers"}


def fan_out(tree: int, workers: int) -> int:
    """What a tree of :data:`TREES` means with so many workers; 0 is none."""
    return tree if tree >= 0 else math.ceil(math.sqrt(workers))


def clusters() -> list[tuple[int, int]]:
    """Workers and trees; those that are no trees as they have no more evaluators than the driver talks to left out."""
    return [(workers, tree) for workers in WORKERS for tree in TREES if tree <= 0 or workers > tree]


def draw(loads: dict[tuple[int, int], Load], path: Path) -> None:
    """The picture."""
    figure, axes = pyplot.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for (tree, name), color in zip(TREES.items(), ("tab:gray", "tab:blue", "tab:orange"), strict=True):
        own = [loads[workers, tree] for workers in WORKERS if (workers, tree) in loads]
        counts = [load.workers for load in own]
        axes[0].plot(counts, [load.seconds for load in own], color=color, label=name)
        axes[1].plot(counts, [load.driver_s for load in own], color=color, label=f"driver, {name}")
        if tree:
            axes[1].plot(counts, [load.branch_s for load in own], ":", color=color, label="its busiest branch")
        base = loads.get((BASE, tree))
        if base is not None:
            ratios = {load.workers: _rate(load) / _rate(base) for load in own if load.workers >= BASE}
            axes[2].plot(*zip(*ratios.items(), strict=True), color=color, label=name)
    for (name, minutes), marker in zip(PAPER.items(), "ox", strict=True):
        ratios = {workers: minutes[BASE] / own for workers, own in minutes.items()}
        axes[2].plot(*zip(*ratios.items(), strict=True), f"k{marker}", mfc="none", label=f"figure 8(a): {name}")
    ideal = [workers / BASE for workers in WORKERS if workers >= BASE]
    axes[2].plot([workers for workers in WORKERS if workers >= BASE], ideal, "k--", lw=0.7, label="ideal")
    axes[0].set(ylabel="seconds of a generation", ylim=(0, None))
    axes[1].set(yscale="log", ylabel="seconds busy in a generation")
    axes[2].set(yscale="log", ylabel=f"times as fast as {BASE} workers")
    for axis in axes:
        axis.set(xscale="log", xlabel="workers")
        shown = WORKERS if axis is not axes[2] else [workers for workers in WORKERS if workers >= BASE]
        axis.set_xticks(shown, [str(workers) for workers in shown], fontsize=8)
        axis.set_xticks([], minor=True)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    figure.savefig(path, dpi=90)


def _rate(load: Load) -> float:
    """Pairs a second."""
    return load.pairs / load.seconds


# -- tables


def generations_table(loads: dict[tuple[int, int], Load]) -> str:
    """Seconds, and the driver's part."""
    head = "| Workers | | a generation | driver busy | its share | its program | busiest branch | talks to | in, out |"
    lines = [head, "| --: | --- |" + " --: |" * 7]
    for (workers, tree), one in loads.items():
        branch = f"{1e3 * one.branch_s:,.0f} ms" if one.talks_to < workers else ""
        times = f"{one.seconds:.2f} s | {1e3 * one.driver_s:,.0f} ms | {one.driver_s / one.seconds:.1%}"
        traffic = f"{one.received / 1e6:,.1f}, {one.sent / 1e6:,.1f} MB"
        rest = f"{1e3 * one.program_s:,.0f} ms | {branch} | {one.talks_to} | {traffic}"
        lines.append(f"| {workers} | {TREES[tree]} | {times} | {rest} |")
    return "\n".join(lines)


def paper_table(loads: dict[tuple[int, int], Load]) -> str:
    """How many times as fast as with 256 workers."""
    lines = ["| Workers | " + " | ".join(TREES.values()) + " | figure 8(a) |", "| --: |" + " --: |" * 4]
    for workers in WORKERS:
        if workers >= BASE:
            found = [(loads.get((workers, tree)), loads.get((BASE, tree))) for tree in TREES]
            ours = [f"{_rate(one) / _rate(base):.1f}" if one and base else "" for one, base in found]
            minutes = PAPER["RLlib"]
            lines.append(f"| {workers} | {' | '.join(ours)} | {minutes[BASE] / minutes[workers]:.1f} |")
    return "\n".join(lines)


# -- the program


def read(path: Path) -> tuple[EsCosts, list[Load]]:
    """What a run has written."""
    found = json.loads(path.read_text())
    costs = found["costs"]
    return EsCosts(**{**costs, "calls": CallCosts(**costs["calls"])}), [Load(**own) for own in found.get("loads", [])]


def write(path: Path, costs: EsCosts, loads: Sequence[Load]) -> None:
    result = {"costs": dataclasses.asdict(costs), "loads": [dataclasses.asdict(load) for load in loads]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--costs", type=Path, help="the file of a run whose costs and outcomes are taken")
    parser.add_argument("--calls", type=Path, help="a file of async_scaling.py whose costs of calls are taken")
    parser.add_argument("--most", type=int, default=WORKERS[-1], help="workers, at most (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="folder (default: %(default)s)")
    parser.add_argument("--page", type=Path, help="a page whose tables are written anew")
    options = parser.parse_args()
    if options.costs is not None:
        costs, known = read(options.costs)
    else:
        calls = CallCosts(**json.loads(options.calls.read_text())["costs"]["calls"]) if options.calls else None
        costs, known = es_costs.measure(calls), []
    print(costs)
    by_shape = {(one.workers, one.fan_out): one for one in known}
    # What is done for the first time takes longer.
    simulate(costs, 4, 0, pairs=4)
    loads: dict[tuple[int, int], Load] = {}
    for workers, tree in clusters():
        shape = workers, fan_out(tree, workers)
        if shape not in by_shape and workers > options.most:
            continue
        if shape not in by_shape:
            by_shape[shape] = simulate(costs, *shape, pairs=workers)
            print(by_shape[shape], flush=True)
            write(options.out / "es-scaling.json", costs, list(by_shape.values()))
        loads[workers, tree] = by_shape[shape]
    draw(loads, options.out / "es-scaling.png")
    tables = {"generations": generations_table(loads), "paper": paper_table(loads)}
    print(*tables.values(), sep="\n\n")
    if options.page is not None:
        write_tables(options.page, tables)


if __name__ == "__main__":
    main()
