"""How far asynchronous gradients scale, with the costs measured here: 2 to 64 workers on a simulated cluster.

    python benchmarks/async_scaling.py [--costs FILE] [--out FOLDER] [--page FILE]

``async_gradients``, and ``sharded_ps`` with 1 and 8 shards. The driver's program is the real one: its own work is timed
as it runs, and what its calls cost on Ray is added from a table; for so long it is busy, and nobody else is. Evaluators
and shards are light: their calls take the time, and their values have the size, that :mod:`async_costs` has measured.
Everyone has a processor of its own and its own link. The costs with the outcome, and a picture beside figure 5(a) of
the RLlib paper (2018), A3C on Atari, go to the folder; tables go to the page, between the comments that mark them.
Scenarios are workers of the paper's pace with a network of the size that it used, and two networks on CartPole here.
With ``--costs`` nothing is measured but the driver.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import async_costs
from async_cluster import Load, simulate
from async_costs import AsyncCosts, GradientCosts
from matplotlib import pyplot
from ray_calls import CallCosts

WORKERS = (2, 4, 8, 16, 32, 64)
#: 0 is ``async_gradients``.
SHARDS = (0, 1, 8)
#: Read off figure 5(a), gradients/s by workers: a parameter server of 8 shards, and that of distributed TensorFlow.
PAPER = {
    "RLlib, 8 shards": {2: 21.7, 4: 45.2, 8: 94.2, 16: 218.3, 32: 266.1},
    "distributed TensorFlow": {2: 18.2, 4: 39.5, 8: 99.5, 16: 181.6, 32: 240.9},
}
#: Of a worker there before anything holds it up, how much that varies, and parameters of the network for Atari (Mnih et
#: al. 2015).
PAPER_TASK_S, PAPER_TASK_SPREAD = 16 / 218.3, 0.25
PAPER_PARAMETERS = 1_690_000


def scenarios(costs: AsyncCosts) -> Iterator[tuple[str, GradientCosts]]:
    """Those of the paper's pace: what is by parameter is as in the large network."""
    small, large = costs.networks["small"], costs.networks["large"]
    part = PAPER_PARAMETERS / large.parameters
    by_parameter = ("update_s", "apply_s", "snapshot_s", "receive_s")
    yield (
        "workers of the paper's pace, 1.7 million parameters",
        dataclasses.replace(
            large,
            parameters=PAPER_PARAMETERS,
            task_s=PAPER_TASK_S,
            sliced_task_s=PAPER_TASK_S,
            task_spread=PAPER_TASK_SPREAD,
            gradients_bytes=int(part * large.gradients_bytes),
            state_bytes=int(part * large.state_bytes),
            **{name: part * getattr(large, name) for name in by_parameter},
        ),
    )
    yield f"CartPole here, {small.parameters:,} parameters", small
    yield f"CartPole here, {large.parameters:,} parameters", large


def draw(loads: Sequence[Load], path: Path) -> None:
    """The picture."""
    names = list(dict.fromkeys(load.scenario for load in loads))
    figure, axes = pyplot.subplots(1, len(names), figsize=(13, 4), layout="constrained")
    for axis, name in zip(axes, names, strict=True):
        for shards, color in zip(SHARDS, ("tab:gray", "tab:orange", "tab:blue"), strict=True):
            own = [load for load in loads if (load.scenario, load.shards) == (name, shards)]
            rates = [load.gradients_per_s for load in own]
            axis.plot([load.workers for load in own], rates, color=color, label=_name(shards))
        axis.set(xscale="log", yscale="log", xlabel="workers", ylabel="gradients/s")
        axis.set_title(name, fontsize=9)
        axis.set_xticks(WORKERS, [str(workers) for workers in WORKERS])
        axis.set_xticks([], minor=True)
        axis.grid(alpha=0.3)
    for (name, found), marker in zip(PAPER.items(), "ox", strict=True):
        axes[0].plot(*zip(*found.items(), strict=True), f"k{marker}", mfc="none", label=f"figure 5(a): {name}")
    for axis in axes[:2]:
        axis.legend(fontsize=7)
    figure.savefig(path, dpi=90)


def _name(shards: int) -> str:
    return f"sharded_ps, {shards} shard{'s' if shards > 1 else ''}" if shards else "async_gradients"


# -- tables


def rates_table(loads: Sequence[Load]) -> str:
    """Gradients a second."""
    rates = {(load.scenario, load.workers, load.shards): load.gradients_per_s for load in loads}
    scenarios = list(dict.fromkeys(load.scenario for load in loads))
    lines = ["| | workers | async_gradients | 1 shard | 8 shards | figure 5(a) |", "| --- |" + " --: |" * 5]
    for name in scenarios:
        for workers in WORKERS:
            figures = " | ".join(f"{rates[name, workers, shards]:,.0f}" for shards in SHARDS)
            paper = PAPER["RLlib, 8 shards"].get(workers, "") if name == scenarios[0] else ""
            lines.append(f"| {name} | {workers} | {figures} | {paper} |")
    return "\n".join(lines)


def shares_table(loads: Sequence[Load]) -> str:
    """Who is busy, with the most workers."""
    head = "| At 64 workers | | gradients/s | driver | each shard | workers | driver, µs a gradient | staleness |"
    lines = [head, "| --- | --- |" + " --: |" * 6]
    for one in loads:
        if one.workers == WORKERS[-1]:
            shard = f"{one.shard:.2f}" if one.shards else ""
            work = f"{one.driver_us:,.0f}, of which {one.program_us:,.0f} our own"
            shares = f"{one.driver:.2f} | {shard} | {one.worker:.2f} | {work} | {one.staleness:.0f}"
            lines.append(f"| {one.scenario} | {_name(one.shards)} | {one.gradients_per_s:,.0f} | {shares} |")
    return "\n".join(lines)


def costs_table(costs: AsyncCosts) -> str:
    """What was measured."""
    small, large = costs.networks["small"], costs.networks["large"]
    calls = costs.calls
    rows = [
        ("a task: a sample of {rows} rows and its gradients", "task_s"),
        ("the same, cut into slices", "sliced_task_s"),
        ("the update in the driver", "update_s"),
        ("the update in shards, all together", "apply_s"),
        ("their snapshots, all together", "snapshot_s"),
        ("taking over weights", "receive_s"),
    ]
    lines = [f"| What | {small.parameters:,} parameters | {large.parameters:,} |", "| --- | --: | --: |"]
    for what, name in rows:
        figures = " | ".join(f"{1e3 * getattr(own, name):,.2f} ms" for own in (small, large))
        lines.append(f"| {what.format(rows=small.rows)} | {figures} |")
    both = [
        ("a call of Ray: to the driver's thread; to the worker's process", calls.submit_s, calls.worker_s),
        ("getting results: at once, and each", calls.get_s, calls.get_ref_s),
        ("looking at calls in flight: at once, and each", calls.wait_s, calls.wait_ref_s),
        ("putting something small", calls.put_s),
    ]
    lines += ["", "| Calls | Cost |", "| --- | --: |"]
    lines += [f"| {what} | {'; '.join(f'{1e6 * one:,.1f} µs' for one in own)} |" for what, *own in both]
    return "\n".join(lines)


def write_tables(page: Path, tables: dict[str, str]) -> None:
    """Each between its comments ``<!-- name -->`` and ``<!-- end of name -->``."""
    text = page.read_text()
    for name, table in tables.items():
        marked = rf"(<!-- {name} -->\n).*?(\n<!-- end of {name} -->)"
        text, count = re.subn(marked, lambda found, own=table: f"{found[1]}\n{own}\n{found[2]}", text, flags=re.DOTALL)
        assert count == 1, f"{page} has no place for {name}"
    page.write_text(text)


def read_costs(path: Path) -> AsyncCosts:
    """What a run has written."""
    found = json.loads(path.read_text())["costs"]
    networks = {name: GradientCosts(**own) for name, own in found["networks"].items()}
    return AsyncCosts(networks, CallCosts(**found["calls"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--costs", type=Path, help="the file of a run whose costs are taken")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="folder (default: %(default)s)")
    parser.add_argument("--page", type=Path, help="a page whose tables are written anew")
    options = parser.parse_args()
    costs = read_costs(options.costs) if options.costs else async_costs.measure()
    loads: list[Load] = []
    for name, own in scenarios(costs):
        for shards in SHARDS:
            for workers in WORKERS:
                loads.append(simulate(name, own, costs.calls, workers, shards))
                print(loads[-1], flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    result = {"costs": dataclasses.asdict(costs), "loads": [dataclasses.asdict(load) for load in loads]}
    (options.out / "async-scaling.json").write_text(json.dumps(result, indent=1) + "\n")
    draw(loads, options.out / "async-scaling.png")
    tables = {"rates": rates_table(loads), "shares": shares_table(loads), "costs": costs_table(costs)}
    print(*tables.values(), sep="\n\n")
    if options.page is not None:
        write_tables(options.page, tables)


if __name__ == "__main__":
    main()
