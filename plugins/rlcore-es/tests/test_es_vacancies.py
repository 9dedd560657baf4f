"""A machine that goes and does not come back: the others do its evaluators' tasks, and nobody waits for it again."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from rlcore.evaluator_messages import Update
from rlcore.runtime.inline import InlineRuntime
from rlcore.trainer import Trainer
from rlcore_es.branch import Branch
from rlcore_es.layout import Layout
from rlcore_es.noise import noise_table
from rlcore_es.population import Population

#: What seven pairs, two at a time, take whoever is left.
TASK_S, TASKS, ROOM_S = 1.0, 7, 40.0
STEPS = 5


def run(runtime: Any, count: int, fan_out: int) -> tuple[str, list[float]]:
    """The weights after some steps, and when each of these was over."""
    optimizer = {"pairs": 13, "task_pairs": 2, "evaluations": 4, "noise_std": 0.3, "noise_table": 5_000}
    config = {
        "algorithm": "es",
        "framework": "numpy",
        "env": "rlcore.testing:Contexts",
        "filter": "mean_std",
        "seed": 3,
        "optimizer": {**optimizer, "fan_out": fan_out},
        "evaluators": {"count": count, "envs": 2, "room_timeout_s": ROOM_S},
        "runtime": runtime,
    }
    with Trainer(config) as trainer:
        ends = []
        for _ in range(STEPS):
            trainer.step()
            ends.append(trainer.evaluators._runtime.now())
        return trainer.weights_sha256(), ends


@pytest.fixture(scope="module")
def expected() -> str:
    return run("inline", 0, 64)[0]


def cluster(count: int, gone: int, until: float | None) -> dict[str, Any]:
    """One with a CPU for each evaluator, of which the last ``gone`` are on a machine that goes in the second step."""
    machine = {"cpus": gone, "away": [{"since": 4.0, "until": until}]}
    costs = {"perform": TASK_S, "start": 0.1}
    sim = {"name": "sim", "cpus": count, "machines": [machine], "costs": costs}
    return {**sim, "max_seconds": 1e4, "max_events": 100_000}


@pytest.mark.parametrize("until", [None, 60.0])
@pytest.mark.parametrize(
    ("count", "gone", "fan_out"),
    [
        pytest.param(2, 1, 64, id="without branches"),
        pytest.param(5, 1, 2, id="a branch has one left"),
        pytest.param(4, 2, 2, id="a branch has nobody left"),
        pytest.param(8, 2, 2, id="a branch below a branch has nobody left"),
        pytest.param(8, 4, 2, id="two branches below a branch have nobody left"),
    ],
)
def test_a_step_takes_no_longer_than_the_tasks_of_those_who_are_left(
    count: int, gone: int, fan_out: int, until: float | None, expected: str
) -> None:
    weights, ends = run(cluster(count, gone, until), count, fan_out)
    assert weights == expected
    assert ends[-1] < 10.0 + ROOM_S + STEPS * TASKS * TASK_S
    assert all(later - earlier < TASKS * TASK_S + 1.0 for earlier, later in itertools.pairwise(ends[2:]))


@pytest.mark.parametrize("is_lowest", [True, False])
def test_a_branch_with_nobody_below_gives_tasks_back_and_adds_up_by_itself(is_lowest: bool) -> None:
    population = Population(
        layouts={"default": Layout((("w", (3,)),))},
        pairs=5,
        evaluations=2,
        episodes=1,
        task_pairs=4,
        common_starts=True,
        slots=4,
        noise_std=0.5,
        action_noise=0.0,
        table=1_000,
        seed=7,
    )
    branch = Branch(InlineRuntime(), 1.0)
    branch.keep_table(noise_table(1_000, 7))
    if is_lowest:
        branch.hold({})
    else:
        branch.hold_branches({}, {})
    report = branch.explore(population, 0, [0, 1], Update({}, 1, {}, {}), {})
    assert report.undone == [0, 1] and not report.outcome.tasks
    weights = {"default": np.array([0, 0, 0, 0, 2], np.int64)}
    index = population.indexes(0)[4]
    expected = 2.0 * noise_table(1_000, 7)[index : index + 3]
    assert branch.add_up(population, 0, 0, weights)["default"].tolist() == expected.tolist()
