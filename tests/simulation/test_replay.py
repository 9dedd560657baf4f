"""What holds of the optimizer replay whatever a simulated cluster does to it: hundreds of seeds.

A seed that fails is in the name of its test, and fails again in the same way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import simulated as sim

from rlcore.runtime.inline import InlineRuntime
from rlcore.runtime.sim import FaultKind, PlannedFault, SimConfig, SimRuntime
from rlcore.runtime.snapshot import snapshot

pytest.importorskip("rlcore_replay")

STEPS = 5
CAPACITY, STARTS, MINIBATCH, RATIO = 70, 30, 8, 1.5
SETTINGS = {"capacity": CAPACITY, "learning_starts": STARTS, "minibatch_size": MINIBATCH, "learnt_per_sampled": RATIO}

#: Calls that a worker may have been sent and not answered: those that start and bring up a new one, twice where it had
#: no room at first, the last broadcast and what it is asked then. With two rounds a step, two broadcasts at the most.
MOST_IN_FLIGHT = 8


def seeds(few: range, many: range) -> list[Any]:
    """The few in every run of the tests, the many when they are asked for."""
    return [*few, *(pytest.param(seed, marks=pytest.mark.slow) for seed in many)]


def rows_learnt(one: sim.Simulated) -> list[tuple[int, int]]:
    optimizer: Any = one.optimizer
    rows: list[tuple[int, int]] = optimizer.learner.graphs["default"].rows
    return rows


@pytest.mark.parametrize("seed", seeds(range(100), range(100, 1000)))
def test_whatever_fails(seed: int) -> None:
    rounds = 1 + seed % 2
    one = sim.simulated(sim.faults(seed), "replay", settings={**SETTINGS, "rounds": rounds})
    runtime: Any = one.runtime
    optimizer: Any = one.optimizer
    size, env_steps, learnt = one.count * sim.ROWS, 0, 0
    for result in sim.run(one, STEPS):
        assert result.env_steps == rounds * size - sim.ROWS * sim.missing_samples(one) and not result.dropped_rows
        env_steps, learnt = env_steps + result.env_steps, learnt + result.learnt_rows
        # As many minibatches as are due, whatever became of whom.
        due = int(max(0, env_steps - STARTS) * RATIO)
        assert learnt == due - due % MINIBATCH
        check_replicas(one)
    assert runtime.now() <= sim.time_bound(runtime.faults, rounds * STEPS)
    assert runtime.most_in_flight <= MOST_IN_FLIGHT
    # Every row that was fetched is stored, once, until newer ones take its place; nothing else is learnt from.
    fetched = [row for batch in one.fetched for row in sim.rows_of(batch)]
    assert len(set(fetched)) == len(fetched)
    buffer = optimizer.memory.buffers["default"]
    stored = sim.rows_of(buffer.take(np.arange(len(buffer)))) if fetched else []
    assert sorted(stored) == sorted(fetched[-CAPACITY:])
    assert set(rows_learnt(one)) <= set(fetched)
    check_versions(one)


def check_versions(one: sim.Simulated) -> None:
    """Samples are of the weights of the last broadcast, and the next of a later one."""
    for versions in one.versions.values():
        # Who was missing in a round goes on with the weights of the next.
        assert versions == sorted(set(versions)) and set(versions) <= set(range(len(one.rounds)))
    for version, batch in enumerate(one.fetched):
        assert set(batch.cuts["policy_version"].tolist()) == {version}
        assert len(np.unique(batch["w_seen"])) == 1


def check_replicas(one: sim.Simulated) -> None:
    """After a step everyone has the driver's weights and filters."""
    expected = one.set.local.filters["default"][""].get_statistics()
    for handle in one.set.handles:
        worker: Any = handle.worker  # type: ignore[attr-defined]
        assert worker.get_weights()["default"]["w"].tolist() == one.weights()
        for name, array in worker.filters["default"][""].get_statistics().items():
            np.testing.assert_array_equal(array, expected[name])


@pytest.mark.parametrize("seed", seeds(range(30), range(30, 300)))
def test_without_faults_it_is_as_inline_whatever_takes_how_long(seed: int) -> None:
    results, weights = [], []
    for runtime in (SimRuntime(sim.delays(seed)), InlineRuntime()):
        # Nobody is so slow as to be given up.
        one = sim.Simulated(runtime, "replay", 1 + seed % 3, {**SETTINGS, "seed": seed}, timeout_s=1e6)
        steps = [one.optimizer.step() for _ in range(STEPS)]
        results.append([(step.env_steps, step.learnt_rows, step.updates, step.stats) for step in steps])
        weights.append((one.weights(), rows_learnt(one)))
        assert one.losses == []
    assert results[0] == results[1]
    assert weights[0] == weights[1]


def test_a_seed_replays_event_by_event() -> None:
    digests = []
    for _ in range(2):
        for seed in (3, 4):
            one = sim.simulated(sim.faults(seed), "replay", settings=SETTINGS)
            steps = [(step.learnt_rows, step.stats, step.timers) for step in sim.run(one, STEPS)]
            runtime: Any = one.runtime
            digests.append((runtime.journal.digest(), steps, one.weights(), one.losses))
    assert digests[:2] == digests[2:]
    assert digests[0][0] != digests[1][0]


@pytest.mark.parametrize("fault", [FaultKind.CRASH, FaultKind.HANG, FaultKind.REQUEST, FaultKind.ANSWER])
def test_an_evaluator_that_is_lost_while_a_state_is_restored_is_replaced(fault: FaultKind) -> None:
    before = sim.simulated(SimConfig(), "replay", settings=SETTINGS)
    for _ in range(3):
        before.optimizer.step()
    states: Any = snapshot({"set": before.set.get_state(), "optimizer": before.optimizer.get_state()})
    plan = [PlannedFault(worker=1, method="set_state", fault=fault)]
    one = sim.simulated(SimConfig(plan=plan, max_seconds=1000.0), "replay", settings=SETTINGS)
    one.set.set_state(states["set"])
    one.optimizer.set_state(states["optimizer"])
    assert one.optimizer.step().learnt_rows == before.optimizer.step().learnt_rows
    assert [place for place, _ in one.losses] == [1]
    assert rows_learnt(one)
