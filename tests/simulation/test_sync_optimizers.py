"""What holds of the synchronous optimizers whatever a simulated cluster does to them: hundreds of seeds each.

A seed that fails is in the name of its test, and fails again in the same way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import simulated as sim

from rlcore.runtime.inline import InlineRuntime
from rlcore.runtime.sim import SimRuntime

STEPS = 4

#: Of each optimizer, settings that make several updates a step.
SETTINGS: dict[str, dict[str, Any]] = {
    "multi_gpu": {"epochs": 2, "minibatch_size": 8},
    "allreduce": {"epochs": 2, "minibatch_size": 12},
}
OPTIMIZERS = sorted(SETTINGS)


#: Calls that a worker may have been sent and not answered: those that start and bring up a new one, twice where it had
#: no room at first, the last broadcast and what it is asked then; a replica of allreduce catches up besides. Whatever
#: the number of updates.
MOST_IN_FLIGHT = {"multi_gpu": 7, "allreduce": 17}


def seeds(few: range, many: range) -> list[Any]:
    """The few in every run of the tests, the many when they are asked for."""
    return [*few, *(pytest.param(seed, marks=pytest.mark.slow) for seed in many)]


# In 502 two places become vacant in one step of allreduce, one after the other.
@pytest.mark.parametrize("seed", [*seeds(range(100), range(100, 502)), 502, *seeds(range(0), range(503, 1000))])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_whatever_fails(optimizer: str, seed: int) -> None:
    one = sim.simulated(sim.faults(seed), optimizer, settings=SETTINGS[optimizer])
    runtime: Any = one.runtime
    size = one.count * sim.ROWS
    results = []
    for result in sim.run(one, STEPS):
        results.append(result)
        # The batch has its size in every epoch, whoever is lost in between, but for those that there is no room for.
        full = size - sim.ROWS * sim.missing_samples(one)
        assert result.env_steps == full
        # A replica whose machine goes again, before anyone has sampled, may be missing in some of the epochs alone.
        assert result.learnt_rows <= SETTINGS[optimizer]["epochs"] * full
        if not result.dropped_rows:
            assert result.learnt_rows == SETTINGS[optimizer]["epochs"] * full
        assert result.dropped_rows % sim.ROWS == 0
        check_replicas(one)
    assert runtime.now() <= sim.time_bound(runtime.faults, STEPS)
    assert runtime.most_in_flight <= MOST_IN_FLIGHT[optimizer]
    check_rows(one, results)
    check_versions(one)


def check_rows(one: sim.Simulated, results: list[Any]) -> None:
    """No row is learnt from that was not sampled, or sampled twice; with nothing dropped, all are, in every epoch."""
    if one.optimizer_name != "multi_gpu":
        return
    epochs = SETTINGS[one.optimizer_name]["epochs"]
    rows = [row for batch in one.fetched for row in sim.rows_of(batch)]
    assert len(set(rows)) == len(rows)
    optimizer: Any = one.optimizer
    learnt = optimizer.learner.graphs["default"].rows
    assert sorted(learnt[: len(rows) * epochs]) == sorted(rows * epochs)
    assert one.set.env_steps >= sum(result.env_steps for result in results)


def check_versions(one: sim.Simulated) -> None:
    """Samples are of the weights of the last broadcast, and the next of a later one."""
    for versions in one.versions.values():
        # Who was missing in a round goes on with the weights of the next.
        assert versions == sorted(set(versions)) and set(versions) <= set(range(len(one.rounds)))
    for version, batch in enumerate(one.fetched):
        assert set(batch.cuts["policy_version"].tolist()) == {version}
        assert len(np.unique(batch["w_seen"])) == 1


def check_replicas(one: sim.Simulated) -> None:
    """After a step everyone has the driver's weights, filters and progress."""
    expected = one.set.local.filters["default"][""].get_statistics()
    for handle in one.set.handles:
        worker: Any = handle.worker  # type: ignore[attr-defined]
        if one.optimizer_name == "allreduce":
            assert worker.graph("default").get_weights()["w"].tolist() == one.weights()
        assert worker.get_weights()["default"]["w"].tolist() == one.weights()
        for name, array in worker.filters["default"][""].get_statistics().items():
            np.testing.assert_array_equal(array, expected[name])


@pytest.mark.parametrize("seed", seeds(range(30), range(30, 300)))
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_without_faults_it_is_as_inline_whatever_takes_how_long(optimizer: str, seed: int) -> None:
    count = 1 + seed % 3
    results, weights = [], []
    for runtime in (SimRuntime(sim.delays(seed)), InlineRuntime()):
        # Nobody is so slow as to be given up.
        one = sim.Simulated(runtime, optimizer, count, SETTINGS[optimizer], timeout_s=1e6)
        steps = [one.optimizer.step() for _ in range(STEPS)]
        results.append([(step.env_steps, step.learnt_rows, step.updates, step.stats) for step in steps])
        weights.append(one.weights())
        assert one.losses == []
    assert results[0] == results[1]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_seed_replays_event_by_event(optimizer: str) -> None:
    digests = []
    for _ in range(2):
        for seed in (3, 4):
            one = sim.simulated(sim.faults(seed), optimizer, settings=SETTINGS[optimizer])
            steps = [(step.learnt_rows, step.stats, step.timers) for step in sim.run(one, STEPS)]
            runtime: Any = one.runtime
            digests.append((runtime.journal.digest(), steps, one.weights(), one.losses))
    assert digests[:2] == digests[2:]
    assert digests[0][0] != digests[1][0]
