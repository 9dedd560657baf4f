"""Ray Tune's schedulers as searches use them: what they decide, and that a later session decides likewise."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("ray.tune")

from rlcore.errors import ConfigError
from rlcore_tune.config import parse_search
from rlcore_tune.records import Report, Status, TrialRecord
from rlcore_tune.trial_actor import TIME, VALUE
from rlcore_tune.tune_schedulers import OrderedHyperBand, Population, explored_keys, make_scheduler, trial_id


class FakeTrial:
    """A trial as schedulers see it."""

    def __init__(self, index: int, status: str = "RUNNING") -> None:
        self.trial_id = trial_id(index)
        self.status = status
        self.is_saving = False
        self.config = {"policy.learning_rate": 0.1 * (index + 1)}
        self.experiment_tag = self.trial_id

    def is_finished(self) -> bool:
        return self.status in ("TERMINATED", "ERROR")


def search(scheduler: dict[str, Any], trials: int = 3, mode: str = "max") -> Any:
    return parse_search(
        {
            "algorithm": "pg",
            "env": "CartPole-v1",
            "config": {"stop": {"env_steps": 1000}},
            "space": {"policy.learning_rate": {"uniform": [0, 1]}, "model.hidden": {"choice": [[8], [16]]}},
            "scheduler": scheduler,
            "trials": trials,
            "mode": mode,
        }
    )


def record(index: int, values: list[float], every: int = 10) -> TrialRecord:
    reports = [Report(every * (i + 1), value, {}) for i, value in enumerate(values)]
    return TrialRecord(index, {}, reports, Status.UNFINISHED)


ASHA = {"name": "asha", "min_env_steps": 10, "max_env_steps": 90}


def asha(mode: str = "max", *trials: TrialRecord) -> Any:
    made = make_scheduler(search(ASHA, mode=mode), trials)
    for index in range(4):
        made.on_trial_add(None, FakeTrial(index))
    return made


def decide(scheduler: Any, index: int, time: int, value: float) -> str:
    return str(scheduler.on_trial_result(None, FakeTrial(index), {TIME: time, VALUE: value}))


@pytest.mark.parametrize(("mode", "sign"), [("max", 1), ("min", -1)])
def test_asha_stops_whoever_is_below_the_best_third_of_those_that_have_been_there(mode: str, sign: int) -> None:
    scheduler = asha(mode)
    # The first has nobody to be compared with; rungs are at 1, 3 and 9 reports.
    assert decide(scheduler, 0, 1, sign * 5.0) == "CONTINUE"
    assert decide(scheduler, 1, 1, sign * 4.0) == "STOP"
    assert decide(scheduler, 2, 1, sign * 6.0) == "CONTINUE"
    assert decide(scheduler, 0, 2, sign * 0.0) == "CONTINUE"
    assert decide(scheduler, 2, 3, sign * 7.0) == "CONTINUE"
    assert decide(scheduler, 0, 3, sign * 6.9) == "STOP"
    assert decide(scheduler, 2, 9, sign * 0.0) == "STOP"


def test_asha_in_a_later_session_knows_those_of_the_earlier_one() -> None:
    scheduler = asha("max", record(0, [5.0, 5.0, 5.0]), record(1, [4.0]))
    # It is compared with 5 and 4, of which the best third begins at 4.67.
    assert decide(scheduler, 2, 1, 4.5) == "STOP"
    # Trial 0 has been on the rung at 3, and is not asked there again.
    assert decide(scheduler, 0, 4, -1.0) == "CONTINUE"
    assert decide(scheduler, 3, 3, 4.9) == "STOP"


HYPERBAND = {"name": "hyperband", "min_env_steps": 10, "max_env_steps": 90}


def places(scheduler: OrderedHyperBand, order: list[int]) -> dict[int, int]:
    """Which bracket each trial is in, by how often it is halved."""
    trials = [FakeTrial(index, "PENDING") for index in order]
    for trial in trials:
        scheduler.on_trial_add(None, trial)
    return {int(trial.trial_id): scheduler._trial_info[trial][0]._halves for trial in trials}


def test_hyperband_puts_a_trial_into_the_same_bracket_in_every_session() -> None:
    whole = places(make_scheduler(search(HYPERBAND, 17), [record(i, []) for i in range(17)]), list(range(17)))
    # Of 9 units: 3 trials for all of them, 5 for 3 and 9 for 1 at first (Li et al. 2018, table 1).
    assert [list(whole.values()).count(halves) for halves in (0, 1, 2)] == [3, 5, 9]
    later = places(make_scheduler(search(HYPERBAND, 17), [record(i, []) for i in range(17)]), [16, 4, 8])
    assert later == {16: whole[16], 4: whole[4], 8: whole[8]}


class FakeController:
    """As much of Tune's controller as population based training asks for."""

    search_alg = None

    def __init__(self, trials: list[FakeTrial]) -> None:
        self._trials = trials

    def get_trials(self) -> list[FakeTrial]:
        return self._trials

    def get_live_trials(self) -> list[FakeTrial]:
        return [trial for trial in self._trials if trial.status != "TERMINATED"]


class Manager:
    class checkpoint_config:
        num_to_keep = None


PBT = {"name": "pbt", "every_env_steps": 10}


def population(count: int, *trials: TrialRecord) -> tuple[Population, list[FakeTrial], FakeController]:
    made = make_scheduler(search(PBT, count), trials or [record(i, []) for i in range(count)])
    fakes = [FakeTrial(index) for index in range(count)]
    controller = FakeController(fakes)
    for fake in fakes:
        fake.run_metadata = type("Metadata", (), {"checkpoint_manager": Manager})  # type: ignore[attr-defined]
        made.on_trial_add(controller, fake)
    return made, fakes, controller


def test_a_population_goes_on_where_whom_it_waits_for_is_no_more() -> None:
    made, (first, second), controller = population(2)
    assert made.on_trial_result(controller, first, {TIME: 1, VALUE: 1.0}) == "PAUSE"
    first.status = "PAUSED"
    assert made.choose_trial_to_run(controller) is None
    second.status = "TERMINATED"
    assert made.choose_trial_to_run(controller) is first


def test_a_population_waits_for_nobody_who_has_failed() -> None:
    made, (first, second, third), controller = population(3)
    exploited: list[tuple[str, str]] = []
    made._checkpoint_or_exploit = (  # type: ignore[method-assign]
        lambda trial, controller, upper, lower: exploited.append((trial.trial_id, "low" if trial in lower else "other"))
    )
    third.status = "ERROR"
    assert made.on_trial_result(controller, first, {TIME: 1, VALUE: 2.0}) == "PAUSE"
    first.status = "PAUSED"
    made.on_trial_result(controller, second, {TIME: 1, VALUE: 1.0})
    assert (trial_id(1), "low") in exploited


def test_a_population_of_a_later_session_waits_until_all_are_where_the_first_was() -> None:
    made, (first, second), controller = population(2, record(0, [1.0, 2.0]), record(1, [1.0]))
    assert made.on_trial_result(controller, second, {TIME: 2, VALUE: 1.0}) == "CONTINUE"
    assert made.on_trial_result(controller, first, {TIME: 3, VALUE: 1.0}) == "PAUSE"


def test_settings_near_those_of_the_best_follow_from_the_seed() -> None:
    config = {"policy.learning_rate": 0.1, "model.hidden": [8]}
    runs = [[population(2)[0]._custom_explore_fn(dict(config))] for _ in range(2)]
    assert runs[0] == runs[1] != [config]
    made = population(2)[0]
    assert len({made._custom_explore_fn(dict(config))["policy.learning_rate"] for _ in range(20)}) > 2
    # What the weights are the weights of is taken over with them.
    assert all(made._custom_explore_fn(dict(config))["model.hidden"] == [8] for _ in range(20))


def test_a_population_needs_something_to_change() -> None:
    asked = search(PBT, 2).model_copy(update={"space": {"model.hidden": search(PBT, 2).space["model.hidden"]}})
    with pytest.raises(ConfigError, match=r"pbt has nothing to change: model\.hidden cannot differ"):
        explored_keys(asked)
