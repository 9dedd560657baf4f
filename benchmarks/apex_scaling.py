"""How far Ape-X scales, with the costs measured here: 1 to 256 workers, 1 and 4 replay actors, on a simulated cluster.

    python benchmarks/apex_scaling.py [--costs FILE] [--out FOLDER]

The driver's program is the real one: its own work is timed as it runs, and what its calls cost on Ray is added from a
table; for so long it is busy, and nobody else is. Evaluators, replay actors and the learner are light: their calls take
the time, and their values have the size, that :mod:`apex_costs` has measured. Everyone has a processor of its own and
its own link. The table, the costs and a picture beside figure 5(b) of the RLlib paper (2018) go to the folder;
environment frames are counted as there, four to a step. With ``--costs`` nothing is measured but the driver.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import apex_costs
from apex_cluster import FRAMES_A_STEP, Load, Scenario, simulate
from apex_costs import MINIBATCH, ApexCosts, LearningCosts, SampleCosts
from matplotlib import pyplot
from ray_calls import CallCosts

WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
#: Read off figure 5(b): frames/s by workers, with 1 and 4 replay shards; and what the paper says of its learner, and
#: its 16 workers reach, frames/s.
PAPER = {
    1: {16: 10_600, 32: 21_600, 64: 43_200, 128: 88_600, 256: 131_100},
    4: {16: 11_300, 32: 21_800, 64: 42_600, 128: 89_900, 256: 163_800},
}
PAPER_LEARNER_ROWS_PER_S = 8500
PAPER_FRAMES_PER_WORKER = 10_600 / 16


def scenarios(costs: ApexCosts) -> Iterator[tuple[Scenario, Sequence[int], Sequence[int]]]:
    """Each with the numbers of workers and of replay actors for which it is simulated."""
    there = dataclasses.replace(costs.learning, learn_s=MINIBATCH / PAPER_LEARNER_ROWS_PER_S)
    slow = dataclasses.replace(costs.one, seconds=costs.one.env_steps * FRAMES_A_STEP / PAPER_FRAMES_PER_WORKER)
    yield Scenario("workers of the paper's pace", slow, there), WORKERS, (1, 4)
    yield Scenario("workers of here, one environment each", costs.one, there), WORKERS, (1, 4)
    yield Scenario("workers of here, eight environments each", costs.eight, there), WORKERS, (1, 4)
    yield Scenario("the same, and the learner of here", costs.eight, costs.learning), (16, 256), (1, 4)


def draw(loads: Sequence[Load], path: Path) -> None:
    """The picture."""
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for replay_actors, found in PAPER.items():
        marker = "k^" if replay_actors > 1 else "ko"
        left.plot(*zip(*found.items(), strict=True), marker, mfc="none", label=f"figure 5(b), {replay_actors} replay")
    names = list(dict.fromkeys(load.scenario for load in loads))[:3]
    for name, color in zip(names, ("tab:blue", "tab:orange", "tab:green"), strict=True):
        for replay_actors, style in ((1, "--"), (4, "-")):
            own = [load for load in loads if (load.scenario, load.replay_actors) == (name, replay_actors)]
            rates = [load.frames_per_s for load in own]
            label = f"{name}, {replay_actors} replay"
            left.plot([load.workers for load in own], rates, style, color=color, label=label)
    left.set(xscale="log", yscale="log", xlabel="workers", ylabel="environment frames/s")
    left.legend(fontsize=7, loc="lower right")
    for name, color in zip(names, ("tab:blue", "tab:orange", "tab:green"), strict=True):
        own = [load for load in loads if (load.scenario, load.replay_actors) == (name, 4)]
        for part, style in (("driver", "-"), ("replay", ":")):
            shares = [getattr(load, part) for load in own]
            right.plot([load.workers for load in own], shares, style, color=color, label=f"{part}: {name}")
    right.set(xscale="log", xlabel="workers, with 4 replay actors", ylabel="share of the time busy", ylim=(0, 1.05))
    right.legend(fontsize=6.5, loc="center left", bbox_to_anchor=(0.0, 0.62))
    for axes in (left, right):
        axes.set_xticks(WORKERS, [str(workers) for workers in WORKERS])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=90)


def _row(load: Load) -> str:
    return (
        f"{load.workers:>8}{load.replay_actors:>7}{load.frames_per_s:>10,.0f}{load.updates_per_s:>10.1f}       "
        f"{load.driver:>8.2f}{load.worker:>8.2f}{load.replay:>8.2f}{load.learner:>8.2f}{load.link:>7.2f}"
        f"{load.driver_us:>12,.0f}{load.program_us:>9,.0f}"
    )


def read_costs(path: Path) -> ApexCosts:
    """What a run has written."""
    found = json.loads(path.read_text())["costs"]
    return ApexCosts(
        SampleCosts(**found["one"]),
        SampleCosts(**found["eight"]),
        LearningCosts(**found["learning"]),
        CallCosts(**found["calls"]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--costs", type=Path, help="the file of a run whose costs are taken")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="folder (default: %(default)s)")
    options = parser.parse_args()
    costs = read_costs(options.costs) if options.costs else apex_costs.measure()
    print(costs)
    loads: list[Load] = []
    print(
        f"{'workers':>8}{'replay':>7}{'frames/s':>10}{'updates/s':>10}  busy:{'driver':>8}{'workers':>8}{'replay':>8}"
        f"{'learner':>8}{'link':>7}{'us a sample':>12}{'program':>9}"
    )
    for scenario, workers, replay_actors in scenarios(costs):
        print(scenario.name)
        for actors in replay_actors:
            for count in workers:
                loads.append(simulate(scenario, costs.calls, count, actors))
                print(_row(loads[-1]), flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    result = {"costs": dataclasses.asdict(costs), "loads": [dataclasses.asdict(load) for load in loads]}
    (options.out / "apex-scaling.json").write_text(json.dumps(result, indent=1) + "\n")
    draw(loads, options.out / "apex-scaling.png")


if __name__ == "__main__":
    main()
