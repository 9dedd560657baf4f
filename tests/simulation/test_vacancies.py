"""Machines that come and go: the others go on without the evaluators that find no room, and take them back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import simulated
from support.runs import linear
from support.workers import replicas

from rlcore.crew import LOST, StrictCrew, WholeCrew
from rlcore.errors import ConfigError, MachineLost, UserError
from rlcore.evaluator_set import EvaluatorSet
from rlcore.in_flight import InFlight
from rlcore.members import STARTING_S
from rlcore.runtime.base import Resources
from rlcore.runtime.sim import SimConfig, SimRuntime
from rlcore.stepping import wait_for_any
from rlcore.trainer import Trainer
from rlcore.tree import flatten

pytest.importorskip("rlcore_sync")
pytest.importorskip("rlcore_gym")

#: Rows of one sample, which takes ten seconds; a round is over every ten.
ROWS = 3 * 25
ROOM_S = 40.0
OPTIMIZERS = ["multi_gpu", "allreduce"]


class Run:
    """Evaluators with a CPU each, of which the last ones are on a machine that is away at times."""

    def __init__(
        self,
        *away: tuple[float, float | None],
        count: int = 2,
        on_it: int = 1,
        starts_in_s: float = 0.1,
        **changes: Any,
    ) -> None:
        simulated = {
            "name": "sim",
            "cpus": count,
            "machines": [{"cpus": on_it, "away": [{"since": since, "until": until} for since, until in away]}],
            "costs": {"sample_counted": 10.0, "sample_products": 10.0, "start": starts_in_s},
            "max_seconds": 1e6,
        }
        evaluators = {"count": count, "room_timeout_s": ROOM_S, **changes.pop("evaluators", {})}
        self.told: list[Any] = []
        config = {**linear({"filter": "mean_std", "evaluators": evaluators, **changes}), "runtime": simulated}
        self.trainer = Trainer(config, hooks=[self])

    def worker_lost(self, index: int, cause: str) -> None:
        self.told.append((index, cause))

    def places_vacant(self, places: list[int], size: int) -> None:
        self.told.append((list(places), size))

    def steps(self, count: int) -> list[int]:
        """Samples of each iteration: its environment steps, in those of one evaluator."""
        found = []
        for _ in range(count):
            before = self.trainer.counters.env_steps
            found.append((self.trainer.step()["env_steps"] - before) // ROWS)
        return found


GONE = (1, "its machine is gone")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_others_go_on_while_a_machine_is_away_and_use_it_when_it_is_back(optimizer: str) -> None:
    run = Run((25.0, 205.0), **{"optimizer.name": optimizer})
    samples = run.steps(24)
    assert run.told == [GONE, ([1], 2), ([], 2)]
    vacant = samples.count(1)
    assert set(samples) == {1, 2} and samples[:2] == [2, 2] and samples[-2:] == [2, 2] and vacant >= 10
    # One after the other: it was left out when its time was over, and was asked again as soon as it was back.
    assert samples == sorted(samples[:2], reverse=True) + [1] * vacant + [2] * (22 - vacant)
    row = run.trainer.row
    assert (row["missing_samples"], row["env_steps"]) == (vacant, (2 * 24 - vacant) * ROWS)
    assert row["learnt_rows"] + row["dropped_rows"] == row["env_steps"]
    state = run.trainer.evaluators.get_state()
    own, other = state["evaluators"]["0"], state["evaluators"]["1"]
    assert own["versions"] == other["versions"] == {"default": 24} and state["lives"] == [0, 2]
    for name in ("count", "mean", "m2"):
        np.testing.assert_array_equal(*[one["filters"]["default"][""]["statistics"][name] for one in (own, other)])
    if optimizer == "allreduce":
        _, expected = flatten(run.trainer.optimizers[0].graph_states()["default"])
        for one in (own, other):
            for name, array in flatten(one["graphs"]["default"])[1].items():
                np.testing.assert_array_equal(array, expected[name])
    run.trainer.close()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_who_finds_room_in_time_is_waited_for(optimizer: str) -> None:
    run = Run((25.0, 25.0 + ROOM_S - 1), **{"optimizer.name": optimizer})
    assert run.steps(8) == [2] * 8
    assert run.told == [GONE] and run.trainer.row["missing_samples"] == 0
    run.trainer.close()


def test_who_waits_for_room_is_sent_nothing_meanwhile() -> None:
    bounds = []
    for rounds in (6, 30):
        run = Run((25.0, None))
        run.steps(rounds)
        runtime: Any = run.trainer.evaluators._runtime
        bounds.append(runtime.most_in_flight)
        assert run.trainer.row["missing_samples"] == rounds - 2
        run.trainer.close()
    assert bounds[0] == bounds[1]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("rule", [{}, {"sample_timeout_s": 12.0}, {"sample_fraction": 0.5}])
def test_a_run_waits_where_all_machines_are_away(rule: dict[str, float], optimizer: str) -> None:
    run = Run((25.0, 200.0), on_it=2, evaluators=rule, **{"optimizer.name": optimizer})
    waited = 0.0
    while (before := run.trainer.counters.wall_s) < 250.0:
        assert run.steps(1)[0] > 0
        waited = max(waited, run.trainer.counters.wall_s - before)
    assert 160.0 < waited < 250.0 and run.trainer.counters.iteration < 30
    assert sorted(run.told[:2]) == [(0, "its machine is gone"), GONE] and run.told[-1] == ([], 2)
    assert ([0, 1], 2) in run.told and run.trainer.row["learnt_rows"] <= run.trainer.row["env_steps"]
    run.trainer.close()


@pytest.mark.parametrize("since", [0.0, 25.0])
@pytest.mark.parametrize("optimizer", [*OPTIMIZERS, "async_gradients"])
def test_a_run_does_not_wait_for_ever(optimizer: str, since: float) -> None:
    if optimizer not in OPTIMIZERS:
        pytest.importorskip("rlcore_async")
    run = Run((since, None), on_it=2, **{"optimizer.name": optimizer})
    # Whoever asks in between finds the places vacant, too.
    run.trainer.evaluators.get_state()
    with pytest.raises(UserError) as caught:
        run.steps(8)
    assert str(caught.value) == (
        "there was room for none of 2 evaluators for 300 seconds: each needs 1 CPU, and there are 0 CPU in all"
    )
    assert run.trainer.evaluators._runtime.now() < 50.0 + ROOM_S + STARTING_S
    run.trainer.close()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_machine_may_go_as_often_as_it_likes_while_others_sample(optimizer: str) -> None:
    times = [(25.0 + 40 * k, 30.0 + 40 * k) for k in range(8)]
    run = Run(*times, starts_in_s=60.0, **{"optimizer.name": optimizer})
    run.steps(70)
    assert sum(told[0] == GONE[0] and str(told[1]).startswith(GONE[1]) for told in run.told) > 5
    assert 0 < run.trainer.row["missing_samples"] < 40 and run.steps(2) == [2, 2]
    run.trainer.close()


def test_machines_that_go_before_anyone_has_sampled_end_the_run_with_the_first_loss() -> None:
    run = Run(*[(25.0 + 40 * k, 30.0 + 40 * k) for k in range(8)], on_it=2, starts_in_s=60.0)
    with pytest.raises(MachineLost, match="its machine is gone") as caught:
        run.steps(8)
    assert caught.value.__notes__[0].endswith("was replaced after this, 2 times, and failed again")
    run.trainer.close()


def test_evaluators_that_never_had_room_are_begun_without() -> None:
    run = Run((0.0, 200.0))
    assert run.steps(3) == [1, 1, 1]
    assert run.told == [([1], 2)]
    assert run.steps(20)[-1] == 2
    assert run.told == [([1], 2), ([], 2)] and run.trainer.evaluators.get_state()["lives"] == [0, 1]
    run.trainer.close()


@pytest.mark.parametrize("seed", range(12))
def test_batches_with_a_size_keep_it_and_every_row_is_there_once(seed: int) -> None:
    """Machines that go at any moment, with rounds that wait for everyone and others."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.uniform(5.0, 150.0, size=6)).tolist()
    rule = [{}, {"sample_fraction": 0.5}, {"sample_timeout_s": 12.0}][seed % 3]
    run = Run(
        *zip(times[::2], times[1::2], strict=True),
        count=4,
        on_it=3,
        optimizer={"name": "multi_gpu", "train_batch_size": 4 * ROWS},
        evaluators=rule,
    )
    seen: set[tuple[int, int]] = set()
    learnt = 0
    (optimizer,) = run.trainer.optimizers
    pin = optimizer.learner.pin  # type: ignore[attr-defined]

    def noting(batch: Any) -> Any:
        nonlocal learnt
        rows = batch["default"]
        ids = set(zip(np.repeat(rows.cuts["eps_id"], rows.cuts["length"]).tolist(), rows["t"].tolist(), strict=True))
        assert len(ids) == len(rows) >= 4 * ROWS and not ids & seen
        seen.update(ids)
        learnt += len(rows)
        return pin(batch)

    optimizer.learner.pin = noting  # type: ignore[attr-defined]
    for _ in range(40):
        row = run.trainer.step()
    assert run.trainer.evaluators._runtime.now() > times[-1]
    assert row["env_steps"] == row["learnt_rows"] == learnt == len(seen)
    assert [told for told in run.told if isinstance(told[0], int)] and run.trainer.evaluators._crew.size == 4
    assert len(run.trainer.evaluators.handles) == 4
    run.trainer.close()


def test_who_was_not_there_begins_anew_when_the_run_goes_on(tmp_path: Path) -> None:
    run = Run((25.0, None))
    run.steps(5)
    state = run.trainer.evaluators.get_state()
    assert sorted(state["evaluators"]) == ["0"] and state["lives"] == [0, 2]
    run.trainer.save(tmp_path / "saved")
    run.trainer.close()
    with Trainer.restore(tmp_path / "saved", overrides={"runtime": "inline", "stop.iteration": 9}) as trainer:
        assert trainer.step()["env_steps"] == run.trainer.counters.env_steps + 2 * ROWS
        lives = [
            {eps_id >> 54 for eps_id in one.sample()["default"].cuts["eps_id"].tolist()}
            for one in replicas(trainer.evaluators)
        ]
    assert lives == [{0}, {2}]


def test_workers_wait_for_room_in_the_order_in_which_they_came() -> None:
    runtime = SimRuntime(SimConfig(cpus=3, machines=[{"cpus": 1, "away": [{"since": 0.0, "until": 5.0}]}]))
    first, second, third, fourth = (runtime.spawn(dict, Resources(cpus=2.0 - (i > 0))) for i in range(4))
    started = [runtime.started(handle) for handle in (first, second, third, fourth)]
    assert runtime.wait(started, 4, 1.0)[0] == [started[0]]
    waiting = third.submit("copy")
    assert runtime.wait(started, 4, 5.0)[0] == started[:2] and runtime.now() == 6.0
    runtime.kill(second)
    assert runtime.wait(started, 4, 1.0)[0] == started[:3]
    runtime.get(waiting)
    runtime.kill(fourth)
    assert runtime.wait([started[3]], 1, 0.0)[0] == [started[3]]
    runtime.close()


class Part:
    """Does a part of the work that no other can do."""

    def work(self) -> None:
        """Takes its time."""


def working(away: tuple[float, float | None], kind: type[StrictCrew]) -> Iterator[list[int]]:
    """Whoever has done some work by then, of two workers of which one is on a machine that goes."""
    machine = {"cpus": 1, "away": [{"since": away[0], "until": away[1]}]}
    runtime = SimRuntime(SimConfig(cpus=2, machines=[machine], costs={"work": 10.0}, max_seconds=1e6))
    evaluators = EvaluatorSet(runtime, simulated.evaluator(0), room_timeout_s=ROOM_S)
    crew = evaluators.others("part", [Part, Part], Resources(cpus=1.0), lambda handle, index, life: [], kind)
    calls: InFlight[None] = InFlight(runtime, crew, 1)
    while runtime.now() < 2000.0:
        if not crew.is_stuck:
            for index in calls.idle():
                calls.submit(index, None, "work")
        wait_for_any([calls], runtime)
        yield [done.index for done in calls.arrived() if done.value is not LOST]
    runtime.close()


def test_the_others_do_not_wait_for_ever_for_one_whose_work_they_cannot_do() -> None:
    with pytest.raises(UserError) as caught:
        for _ in working((25.0, None), WholeCrew):
            pass
    assert str(caught.value) == (
        "there was room for 1 of 2 parts for 300 seconds: each needs 1 CPU, and there are 1 CPU in all"
    )


def test_the_others_wait_for_one_whose_work_they_cannot_do() -> None:
    done = [index for found in working((25.0, 325.0), WholeCrew) for index in found]
    # They stood still for 300 seconds, and one of them for some more.
    assert done.count(1) >= 160 and done.count(0) <= done.count(1) + 5


def test_the_others_go_on_without_one_whose_work_they_can_do() -> None:
    done = [index for found in working((25.0, None), StrictCrew) for index in found]
    assert done.count(0) >= 190 and done.count(1) == 2


def test_machines_have_no_more_than_the_cluster() -> None:
    with pytest.raises(ConfigError, match="'machines' have more CPUs than 'cpus'"):
        Trainer({**linear(), "runtime": {"name": "sim", "cpus": 1, "machines": [{"cpus": 2, "away": []}]}})
