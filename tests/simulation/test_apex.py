"""What holds of ``apex`` whatever a simulated cluster does to it: hundreds of seeds of delays, losses and hangs.

A seed that fails is in the name of its test, and fails again in the same way.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from support import simulated as sim
from support import streaming
from support.driver_traffic import values_got
from support.simulated import ROWS
from support.streaming import EVALUATORS, OPTIMIZER_STEPS, ROUNDS, digest, seeds

from rlcore.errors import RlcoreError
from rlcore.members import STARTING_S
from rlcore.policy_optimizer import StepResult
from rlcore.runtime.base import Runtime
from rlcore.runtime.inline import InlineRuntime
from rlcore.runtime.sim import SimConfig, SimRuntime
from rlcore.testing.linear_q import LinearQ

rlcore_apex = pytest.importorskip("rlcore_apex")
STORES_AHEAD = pytest.importorskip("rlcore_apex.apex").STORES_AHEAD

MEMORIES = 2
#: Spawned are the evaluators, the replay actors, the learner: the first of these, and the last.
MEMORY, LEARNER = EVALUATORS, EVALUATORS + MEMORIES
AHEAD, DRAWS, QUEUE = 2, 3, 6
MINIBATCH = 8

#: An evaluator: samples asked for, weights, progress and exploration of a new one, its state at the end. A replay
#: actor: what is stored and drawn, and the priorities of what the learner has had. The learner: its queue and two more.
MOST_IN_FLIGHT = max(AHEAD + 12, STORES_AHEAD + DRAWS + QUEUE + DRAWS + 3, QUEUE + 4)


class Training(streaming.Training):
    """``apex`` at work."""

    graph = LinearQ

    def __init__(self, runtime: Runtime, timeout_s: float = sim.TIMEOUT_S, **settings: Any) -> None:
        config = {
            "capacity": 4096,
            "learning_starts": 16,
            "minibatch_size": MINIBATCH,
            "learnt_per_sampled": 2.0,
            "replay_actors": MEMORIES,
            "samples_ahead": AHEAD,
            "draws_ahead": DRAWS,
            "learner_queue": QUEUE,
            "max_weight_delay": 2 * ROWS,
            "snapshot_every": 5,
            **settings,
        }
        super().__init__(rlcore_apex.Apex, config, runtime, timeout_s)

    def stored(self) -> list[tuple[int, int]]:
        """``(episode, t)`` of everything in replay."""
        rows = []
        for memory in self.optimizer.replay_memory.get_marked().values():
            columns = memory["buffers"]["default"]
            rows += _rows(columns)
        return rows


def _rows(buffer: dict[str, Any]) -> list[tuple[int, int]]:
    from rlcore_replay import ReplayBuffer

    own = ReplayBuffer(4096 // MEMORIES, alpha=0.6)
    own.set_state(buffer)
    if not len(own):
        return []
    batch = own.take(np.arange(len(own)))
    return list(zip(batch.cuts["eps_id"].tolist(), batch["t"].tolist(), strict=True))


@pytest.mark.parametrize("seed", seeds(range(60), range(60, 500)))
def test_whatever_fails(seed: int) -> None:
    one = Training(SimRuntime(sim.faults(seed)))
    results = list(one.run())
    one.ended_in_time(MOST_IN_FLIGHT)
    for result in results:
        assert result.env_steps >= ROUNDS * EVALUATORS * ROWS
        assert result.learnt_rows == MINIBATCH * (result.updates + result.skipped_updates)
    check_versions(one)
    if len(results) == OPTIMIZER_STEPS:
        check_rows(one, results)


def check_versions(one: Training) -> None:
    """The weights that act never go back to older ones."""
    for index in range(EVALUATORS):
        versions = one.versions(index)
        # With the learner's machine the weights go that it published last: a new evaluator waits for the next.
        newcomer = ("learner", 0) in one.losses and ("evaluator", index) in one.losses
        assert versions == sorted(versions) or newcomer


def check_rows(one: Training, results: list[StepResult]) -> None:
    """Nothing is stored twice, and what is not stored went with a replay actor or is on its way."""
    stored = one.stored()
    assert len(set(stored)) == len(stored)
    sampled = sum(sample.info.env_steps for sample in one.samples)
    assert sampled == sum(result.env_steps for result in results)
    assert sampled + ROWS * len(one.optimizer.samples.unread) == one.set.env_steps
    # What came to nothing after the last step counts in the next.
    dropped = sum(result.dropped_rows for result in results) + one.optimizer._tally._dropped
    on_their_way = ROWS * (len(one.optimizer._waiting) + one.optimizer._stores.count())
    assert len(stored) <= sampled
    if not one.losses:
        assert dropped == 0 and len(stored) == sampled - ROWS * len(one.optimizer._waiting)
    else:
        assert len(stored) >= sampled - dropped - on_their_way


@pytest.mark.parametrize("seed", range(20))
def test_without_faults_it_keeps_its_pace_and_its_bounds(seed: int) -> None:
    one = Training(SimRuntime(sim.delays(seed)), timeout_s=1e6)
    results = list(one.run(8))
    env_steps, learnt = one.set.env_steps, sum(result.learnt_rows for result in results)
    # Two rows for each step; neither side is ahead of the other by more than a queue and what is on its way.
    slack = 2 * ROWS * EVALUATORS * AHEAD + 2 * ROWS * MEMORIES * STORES_AHEAD + QUEUE * MINIBATCH
    assert 2 * (env_steps - 16) - 2 * slack <= learnt <= 2 * (env_steps - 16)
    assert one.losses == [] and all(result.dropped_rows == 0 for result in results)
    for index in range(EVALUATORS):
        versions = one.versions(index)
        assert len(set(versions)) >= 3


def test_a_seed_replays_event_by_event() -> None:
    digests = [digest(Training(SimRuntime(sim.faults(seed)))) for seed in (3, 3, 4)]
    assert digests[0] == digests[1] and digests[0][0] != digests[2][0]


def test_inline_repeats() -> None:
    outcomes = []
    for _ in range(2):
        one = Training(InlineRuntime())
        results = [(result.env_steps, result.learnt_rows, result.stats) for result in one.run()]
        outcomes.append((results, one.optimizer.get_weights()["default"]["q.out.weight"].tolist()))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    ("worker", "method"), [("learner", "learn"), ("replay actor", "draw"), ("replay actor", "add")]
)
def test_whoever_is_lost_is_replaced_and_training_goes_on(worker: str, method: str) -> None:
    number = {"learner": LEARNER, "replay actor": MEMORY}[worker]
    plan = [{"worker": number, "method": method, "call": 12 if worker == "learner" else 3, "fault": "crash"}]
    config = sim.delays(1, plan=plan)
    one = Training(SimRuntime(config), timeout_s=50.0)
    results = list(one.run(8))
    assert one.losses == [(worker, 0)]
    assert sum(result.dropped_rows for result in results) > 0
    assert all(result.updates > 0 for result in results[2:])
    # The learner goes on from what was kept of it: not more than so many updates are lost.
    if worker == "learner":
        learnt = sum(result.updates for result in results)
        # What is under way comes before the answer.
        assert learnt - (5 + QUEUE + 2) <= learner_updates(one) <= learnt + QUEUE
    assert one.runtime.now() < 10 * STARTING_S


@pytest.mark.parametrize("ratio", [None, 2.0])
def test_replay_actors_are_drawn_from_alike(ratio: float | None) -> None:
    draws: dict[int, int] = {}
    one = Training(SimRuntime(sim.delays(2)), timeout_s=1e6, learnt_per_sampled=ratio)
    submit = one.optimizer._draws.submit

    def noting(index: int, *args: Any, **others: Any) -> Any:
        draws[index] = draws.get(index, 0) + 1
        return submit(index, *args, **others)

    one.optimizer._draws.submit = noting
    list(one.run(8))
    assert len(draws) == MEMORIES and max(draws.values()) <= 1.2 * min(draws.values())


@pytest.mark.parametrize("number", range(EVALUATORS + 1 + MEMORIES))
def test_a_machine_that_goes_takes_its_worker_and_no_other(number: int) -> None:
    worker = "evaluator" if number < EVALUATORS else "learner" if number == LEARNER else "replay actor"
    index = {"evaluator": number, "learner": 0, "replay actor": number - MEMORY}[worker]
    method = {"evaluator": "sample_counted", "learner": "learn", "replay actor": "draw"}[worker]
    plan = [{"worker": number, "method": method, "call": 5, "fault": "machine"}]
    one = Training(SimRuntime(SimConfig(seed=number, plan=plan, costs={"sample_counted": 0.1, "learn": 0.05})))
    results = list(one.run(12))
    assert one.losses == [(worker, index)]
    assert len(results) == 12 and results[-1].updates > 0


def test_filters_are_sent_before_anything_is_learnt() -> None:
    one = Training(SimRuntime(sim.delays(3)), timeout_s=1e6, learning_starts=10_000)
    list(one.run(3))
    merged = int(one.set.get_state()["filters"]["default"][""]["count"])
    for handle in one.set.handles:
        count = int(handle.worker.filters["default"][""].get_statistics()["count"])  # type: ignore[attr-defined]
        assert 0 < count <= merged


def test_nothing_that_is_lost_with_a_memory_goes_uncounted() -> None:
    plan = [{"worker": MEMORY, "method": "add", "call": 7, "fault": "crash"}]
    one = Training(SimRuntime(SimConfig(seed=5, plan=plan, costs={"sample_counted": 0.1, "add": 0.3})))
    results = list(one.run(8))
    assert one.losses == [("replay actor", 0)]
    dropped = sum(result.dropped_rows for result in results) + one.optimizer._tally._dropped
    one.optimizer.get_state()
    not_stored = one.optimizer._stores.count() + len(one.optimizer.samples.unread)
    assert len(one.stored()) + dropped + ROWS * not_stored >= one.set.env_steps


@pytest.mark.parametrize("seed", range(20))
def test_evaluators_wait_for_replay_actors_that_are_slower(seed: int) -> None:
    costs = {"sample_counted": 0.01, "add": 0.3}
    one = Training(SimRuntime(SimConfig(seed=seed, costs=costs)), timeout_s=1e6, learnt_per_sampled=None)
    for _ in one.run(8):
        assert len(one.optimizer.samples.unread) <= AHEAD * EVALUATORS
    sampled = max(handle.worker._samples for handle in one.set.handles)  # type: ignore[attr-defined]
    assert sampled <= 8 * ROUNDS * EVALUATORS
    assert one.set.env_steps <= (8 * ROUNDS + AHEAD) * EVALUATORS * ROWS


def learner_updates(one: Training) -> int:
    state = one.optimizer._learner.get_state()["learner"]
    return int(state["learner"]["ledger"]["default"]["updates"])


@pytest.mark.parametrize("late", [0, 1])
def test_a_learner_goes_on_from_what_replay_actors_hold(late: int) -> None:
    # Its machine goes, and that of one of those that hold its state a moment before.
    plan = [{"worker": LEARNER, "method": "learn", "call": 30, "fault": "machine"}]
    if late:
        plan.append({"worker": MEMORY, "method": "draw", "call": 14, "fault": "machine"})
    costs = {"sample_counted": 0.1, "learn": 0.05}
    one = Training(SimRuntime(SimConfig(seed=2, plan=plan, costs=costs, inline_bytes=0)))
    learnt = sum(result.updates for result in one.run(12))
    assert ("learner", 0) in one.losses and len(one.losses) == 1 + late
    # What is under way comes before the answer.
    assert learnt - (2 * 5 + QUEUE + 2) <= learner_updates(one) <= learnt + QUEUE + 2


def test_who_goes_with_all_that_hold_its_state_is_told_of() -> None:
    costs = {"sample_counted": 0.1, "learn": 0.05}
    one = Training(SimRuntime(SimConfig(seed=2, costs=costs, inline_bytes=0)))
    list(one.run(6))
    crews = (one.optimizer._learner.crew, one.optimizer._replay)
    for handle in [handle for crew in crews for handle in crew.handles]:
        handle.actor.die("its machine is gone", machine=True)  # type: ignore[attr-defined]
    with pytest.raises(RlcoreError, match="its state with the machines of all who held it"):
        for _ in range(20):
            one.optimizer.step()


def test_the_state_of_the_learner_does_not_come_into_the_driver() -> None:
    one = Training(SimRuntime(SimConfig(seed=2, inline_bytes=0)))
    got = values_got(one.runtime)
    list(one.run(6))
    assert not any(isinstance(value, dict) and "learner" in value for value in got)
    assert all(handle.worker._kept for handle in one.optimizer._replay.handles)  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(5))
def test_nothing_comes_of_a_learner_that_knows_nothing_yet(seed: int) -> None:
    # Those who hold its state go one after the other, the last of them while the new learner waits for it.
    plan = [{"worker": MEMORY + i, "method": "draw", "call": 60 + i, "fault": "machine"} for i in range(MEMORIES)]
    plan.append({"worker": LEARNER, "method": "learn", "call": 60, "fault": "machine"})
    costs = {"sample_counted": 0.1, "learn": 0.05, "resume": 1.0}
    one = Training(SimRuntime(SimConfig(seed=seed, plan=plan, costs=costs, inline_bytes=0)), max_weight_delay=1)
    published: list[int] = []
    publish = one.set.publish

    def noting(weights: Any, progress: Any) -> None:
        published.append(progress["default"].updates)
        publish(weights, progress)

    one.set.publish = noting
    learnt = sum(result.updates for result in one.run(16))
    assert sorted(one.losses) == [("learner", 0), ("replay actor", 0), ("replay actor", 1)]
    went_back = [before - after for before, after in pairwise(published)]
    assert max(went_back) <= 2 * 5 + QUEUE + 2 and published[-1] > 60
    assert learner_updates(one) >= learnt - (2 * 5 + QUEUE + 2)


@pytest.mark.parametrize("call", [4, 33])
def test_what_was_learnt_before_it_was_lost_is_learnt_again(call: int) -> None:
    plan = [{"worker": LEARNER, "method": "learn", "call": call, "fault": "crash"}]
    costs = {"sample_counted": 0.1, "learn": 0.01}
    one = Training(SimRuntime(SimConfig(seed=1, plan=plan, costs=costs)), snapshot_every=15)
    learnt = sum(result.updates for result in one.run(10))
    assert one.losses == [("learner", 0)]
    # As many as the ratio says are in what the learner knows, whatever was lost; neither side is ahead by more than a
    # queue and what is on its way.
    due = 2 * (one.optimizer._pace.env_steps - 16) // MINIBATCH
    assert due - 2 * QUEUE <= learner_updates(one) <= due < learnt + QUEUE
    assert learnt > learner_updates(one) - QUEUE


@pytest.mark.parametrize("fault", ["crash", "machine"])
def test_every_transition_is_as_likely_after_a_replay_actor_was_lost(fault: str) -> None:
    plan = [{"worker": MEMORY, "method": "draw", "call": 40, "fault": fault}]
    one = Training(SimRuntime(sim.delays(2, plan=plan)), timeout_s=1e6)
    drawn: list[dict[int, float]] = []
    submit = one.optimizer._draws.submit

    def noting(index: int, *args: Any, **others: Any) -> Any:
        if one.losses:
            held = [rows.get("default", 0) for rows in one.optimizer._held._rows]
            drawn.append({place: (place == index) - rows / sum(held) for place, rows in enumerate(held)})
        return submit(index, *args, **others)

    one.optimizer._draws.submit = noting
    list(one.run(12))
    assert one.losses == [("replay actor", 0)] and len(drawn) > 50
    # Drawn from the new one is what its share of the transitions makes due, but for what the other could not give.
    assert sum(excess[0] for excess in drawn) <= 2.0


def test_samples_that_go_with_their_evaluator_are_counted() -> None:
    plan = [{"worker": 0, "method": "sample_counted", "call": 9, "fault": "crash"}]
    one = Training(SimRuntime(sim.delays(1, plan=plan)), timeout_s=50.0)
    results = list(one.run(8))
    assert one.losses == [("evaluator", 0)]
    assert 1 <= sum(result.stats["default"]["lost_samples"] for result in results) <= AHEAD


def test_what_nobody_holds_any_more_is_not_counted_as_held() -> None:
    one = Training(SimRuntime(sim.delays(1)), timeout_s=50.0)
    list(one.run(3))
    crew, optimizer = one.optimizer._replay, one.optimizer
    rows = optimizer._held.rows()
    lost = optimizer._held._rows[0]["default"]
    # There is no room for another one.
    crew._lacks_room = lambda member: member.index == 0  # type: ignore[method-assign]
    crew._vacate(crew.members[0])
    list(optimizer.turn())
    assert optimizer._held.rows() == rows - lost and optimizer._tally._dropped >= lost
