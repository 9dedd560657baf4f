"""What holds of ``async_samples`` whatever a simulated cluster does to it: hundreds of seeds of delays, losses, hangs.

A seed that fails is in the name of its test, and fails again in the same way.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from support import simulated as sim
from support import streaming
from support.driver_traffic import values_got
from support.simulated import ROWS
from support.streaming import EVALUATORS, OPTIMIZER_STEPS, ROUNDS, digest, seeds

from rlcore.members import STARTING_S
from rlcore.policy_optimizer import StepResult
from rlcore.runtime.base import Runtime
from rlcore.runtime.inline import InlineRuntime
from rlcore.runtime.sim import SimConfig, SimRuntime

rlcore_async = pytest.importorskip("rlcore_async")

AGGREGATORS = 2
AHEAD, QUEUE = 2, 3

#: An evaluator: samples asked for, weights, progress and filters of a new one, its state at the end. The learner: its
#: queue and two more, state and weights.
MOST_IN_FLIGHT = max(AHEAD + 12, QUEUE + 6)


class Recording(sim.Recording):
    """Keeps what it has learnt from in its state, so that it is known of a learner in a worker."""

    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "seen": np.array(self.rows, np.int64).reshape(-1, 2)}

    def set_state(self, state: dict[str, Any]) -> None:
        own = dict(state)
        self.rows = [(int(episode), int(t)) for episode, t in own.pop("seen")]
        super().set_state(own)


class Training(streaming.Training):
    """``async_samples`` at work."""

    graph = Recording
    graph_config = {"step": 0.01}

    def __init__(self, runtime: Runtime, timeout_s: float = sim.TIMEOUT_S, **settings: Any) -> None:
        config = {"samples_ahead": AHEAD, "learner_queue": QUEUE, "snapshot_every": 5, **settings}
        super().__init__(rlcore_async.AsyncSamples, config, runtime, timeout_s)

    def learnt(self) -> Counter[tuple[int, int]]:
        """``(episode, t)`` of all that the learner, as it is now, has learnt from, and how often."""
        state = self.optimizer.get_state()["learner"]["learner"]["learner"]
        return Counter((int(episode), int(t)) for episode, t in state["graphs"]["default"]["seen"])

    def dropped(self, results: list[StepResult]) -> int:
        """What came to nothing after the last step counts in the next."""
        return sum(result.dropped_rows for result in results) + self.optimizer._tally._dropped


#: What differs between the trainings that each seed has one of.
KINDS: list[dict[str, Any]] = [
    {},
    {"batch_size": 3 * ROWS, "epochs": 2, "minibatch_size": 5},
    {"aggregators": AGGREGATORS, "batch_size": 2 * ROWS},
    {"replay_share": 0.5, "replay_capacity": 5 * ROWS},
    {"aggregators": AGGREGATORS, "replay_share": 0.25, "max_staleness": 2, "max_weight_delay": 3 * ROWS},
]


@pytest.mark.parametrize("seed", seeds(range(60), range(60, 500)))
def test_whatever_fails(seed: int) -> None:
    settings = KINDS[seed % len(KINDS)]
    one = Training(SimRuntime(sim.faults(seed)), **settings)
    results = list(one.run())
    one.ended_in_time(MOST_IN_FLIGHT)
    for result in results:
        # But for what makes no batch.
        assert result.env_steps > ROUNDS * EVALUATORS * ROWS - settings.get("batch_size", 1)
    check_versions(one, results)
    if len(results) == OPTIMIZER_STEPS:
        check_rows(one, results, settings)


def test_most_runs_reach_their_end() -> None:
    runs = (Training(SimRuntime(sim.faults(seed)), **KINDS[seed % len(KINDS)]) for seed in streaming.FIRST_SEEDS)
    assert streaming.reach_the_end(runs) >= streaming.REACH_THE_END


def check_versions(one: Training, results: list[StepResult]) -> None:
    """The weights that act never go back to older ones; none are older than allowed."""
    for index in range(EVALUATORS):
        versions = one.versions(index)
        # With the learner's machine the weights go that it published last: a new evaluator waits for the next.
        assert versions == sorted(versions) or ("learner", 0) in one.losses
    bound = one.optimizer.config.max_staleness
    for result in results:
        for stats in result.stats.values():
            assert stats["staleness_mean"] <= stats["staleness_max"]
            assert bound is None or stats["staleness_max"] <= bound


def check_rows(one: Training, results: list[StepResult], settings: dict[str, Any]) -> None:
    """Every row is learnt from once in each epoch, or counted as dropped, or on its way; old ones more often."""
    optimizer = one.optimizer
    sampled = sum(sample.info.env_steps for sample in one.samples)
    handed = sum(result.env_steps for result in results) + optimizer._tally._env_steps
    on_their_way = ROWS * (len(optimizer._waiting) + len(optimizer.samples.unread))
    in_aggregation = ROWS * sum(len(batch.new) for batch in batches_in(optimizer._aggregation))
    assert sampled == handed + ROWS * len(optimizer._waiting) + in_aggregation
    assert one.set.env_steps == sampled + ROWS * len(optimizer.samples.unread)
    learnt, dropped = one.learnt(), one.dropped(results)
    epochs = settings.get("epochs", 1)
    if not settings.get("replay_share"):
        assert set(learnt.values()) <= {epochs}
    # Another batch may have overtaken the one that is the first with a sample, and have had it as an old one.
    overtaken = in_aggregation if settings.get("replay_share") else 0
    if not one.losses:
        assert handed - dropped <= len(learnt) <= handed - dropped + overtaken
        assert dropped == 0 or optimizer.config.max_staleness is not None
    assert len(learnt) <= handed + overtaken
    assert on_their_way <= ROWS * EVALUATORS * AHEAD + settings.get("batch_size", 0)


def batches_in(aggregation: Any) -> list[Any]:
    calls = [] if aggregation._calls is None else aggregation._calls.notes()
    return [*aggregation.ready, *calls]


@pytest.mark.parametrize("kind", range(len(KINDS)))
@pytest.mark.parametrize("seed", range(8))
def test_without_faults_nothing_is_lost(seed: int, kind: int) -> None:
    settings = KINDS[kind]
    one = Training(SimRuntime(sim.delays(seed)), timeout_s=1e6, **settings)
    results = list(one.run(8))
    check_versions(one, results)
    check_rows(one, results, settings)
    assert one.losses == []
    if "replay_share" in settings and "max_staleness" not in settings:
        # Over many batches the share is exact, to within a sample.
        learnt = one.learnt()
        old = sum(learnt.values()) - len(learnt)
        share = settings["replay_share"]
        assert abs(old - len(learnt) * share / (1.0 - share)) <= 2 * ROWS
    assert one.optimizer._old.rows <= one.optimizer.config.replay_capacity
    assert len({sample.info.version for sample in one.samples}) >= 3


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_evaluators_wait_for_a_slow_learner(kind: int) -> None:
    costs = {"sample_counted": 0.01, "learn": 1.0}
    settings = {**KINDS[kind], "max_staleness": None}
    one = Training(SimRuntime(SimConfig(seed=kind, costs=costs)), timeout_s=1e6, **settings)
    for _ in one.run(6):
        batch = max(1, settings.get("batch_size", 1) // ROWS)
        assert len(one.optimizer._waiting) <= EVALUATORS * AHEAD + batch
        assert one.set.env_steps - one.optimizer._env_steps <= ROWS * (2 * EVALUATORS * AHEAD + (QUEUE + 1) * batch)
    # What is learnt from was collected shortly before.
    lags = [one.set.version - sample.info.version for sample in one.samples[-6:]]
    assert max(lags) <= 2 * EVALUATORS * AHEAD + QUEUE


@pytest.mark.parametrize("ahead", [1, 2])
def test_a_learner_that_evaluators_can_supply_does_not_wait(ahead: int) -> None:
    # 1.2 samples in a second, of which it learns from one.
    costs = {"sample_counted": 2.5, "learn": 1.0}
    one = Training(SimRuntime(SimConfig(seed=1, costs=costs)), timeout_s=1e6, samples_ahead=ahead, learner_queue=2)
    next(one.run(1))
    started = one.runtime.now()
    updates = sum(result.updates for result in one.run(7))
    # To within the batches that are on their way.
    assert updates >= 0.98 * (one.runtime.now() - started) - 2


def test_a_seed_replays_event_by_event() -> None:
    digests = [digest(Training(SimRuntime(sim.faults(seed)), **KINDS[4])) for seed in (3, 3, 4)]
    assert digests[0] == digests[1] and digests[0][0] != digests[2][0]


def test_inline_repeats() -> None:
    outcomes = []
    for _ in range(2):
        one = Training(InlineRuntime(), **KINDS[3])
        results = [(result.env_steps, result.learnt_rows, result.stats) for result in one.run()]
        outcomes.append((results, one.optimizer.get_weights()["default"]["w"].tolist()))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(("worker", "method"), [("learner", "learn"), ("aggregator", "aggregate")])
@pytest.mark.parametrize("fault", ["crash", "machine"])
def test_whoever_is_lost_is_replaced_and_training_goes_on(worker: str, method: str, fault: str) -> None:
    # Spawned are the evaluators, the learner, the aggregators.
    number = {"learner": EVALUATORS, "aggregator": EVALUATORS + 1}[worker]
    plan = [{"worker": number, "method": method, "call": 12 if worker == "learner" else 3, "fault": fault}]
    one = Training(SimRuntime(sim.delays(1, plan=plan)), timeout_s=50.0, aggregators=AGGREGATORS)
    results = list(one.run(10))
    assert one.losses == [(worker, 0)]
    assert sum(result.dropped_rows for result in results) > 0
    assert all(result.updates > 0 for result in results[2:])
    # The learner goes on from what was kept of it: not more than so many updates are lost.
    if worker == "learner":
        learnt = sum(result.updates for result in results)
        state = one.optimizer.get_state()["learner"]["learner"]["learner"]
        assert learnt - (5 + QUEUE + 2) <= state["ledger"]["default"]["updates"] <= learnt + QUEUE
    assert one.runtime.now() < 10 * STARTING_S


def test_a_machine_that_goes_with_old_samples_does_not_stop_training() -> None:
    plan = [{"worker": 0, "method": "sample_counted", "call": 9, "fault": "machine"}]
    costs = {"sample_counted": 0.1, "learn": 0.05}
    one = Training(
        SimRuntime(SimConfig(seed=5, plan=plan, costs=costs, inline_bytes=0)), replay_share=0.7, replay_capacity=400
    )
    results = list(one.run(12))
    assert one.losses == [("evaluator", 0)]
    assert len(results) == 12 and results[-1].updates > 0


@pytest.mark.parametrize("batch_size", [1, 3 * ROWS])
@pytest.mark.parametrize("bound", [0, 1, 3])
def test_B144_no_sample_that_is_learnt_from_is_staler_than_the_bound(bound: int, batch_size: int) -> None:
    slow = sim.delays(2)
    one = Training(SimRuntime(slow), timeout_s=1e6, max_staleness=bound, batch_size=batch_size)
    results = list(one.run(8))
    assert max(stats["staleness_max"] for result in results for stats in result.stats.values()) <= bound
    free = Training(SimRuntime(slow), timeout_s=1e6)
    unbounded = list(free.run(8))
    assert max(stats["staleness_max"] for result in unbounded for stats in result.stats.values()) > 3


def test_going_on_from_a_state() -> None:
    one = Training(InlineRuntime(), batch_size=2 * ROWS)
    list(one.run(3))
    state, weights = one.optimizer.get_state(), one.optimizer.get_weights()
    two = Training(InlineRuntime(), batch_size=2 * ROWS)
    list(two.run(1))
    two.optimizer.set_state(state)
    assert two.optimizer.get_weights()["default"]["w"].tolist() == weights["default"]["w"].tolist()
    env_steps = state["env_steps"]
    (result,) = two.run(1)
    assert two.optimizer.get_state()["env_steps"] == env_steps + result.env_steps


def test_the_state_of_the_learner_does_not_come_into_the_driver() -> None:
    one = Training(SimRuntime(SimConfig(seed=2, costs={"sample_counted": 0.1}, inline_bytes=0)))
    got = values_got(one.runtime)
    assert len(list(one.run(6))) == 6
    assert not any(isinstance(value, dict) and "learner" in value for value in got)
    # The evaluators keep it.
    assert all(handle.worker._kept for handle in one.set.handles)  # type: ignore[attr-defined]


def test_samples_that_go_with_their_evaluator_are_counted() -> None:
    plan = [{"worker": 0, "method": "sample_counted", "call": 3, "fault": "crash"}]
    one = Training(SimRuntime(sim.delays(1, plan=plan)), timeout_s=50.0)
    results = list(one.run(8))
    assert one.losses == [("evaluator", 0)]
    assert 1 <= sum(result.stats["default"]["lost_samples"] for result in results) <= AHEAD
