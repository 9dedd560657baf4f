"""What holds of ``nested_es`` whatever a simulated cluster does to it: hundreds of seeds of delays, losses and hangs.

A seed that fails is in the name of its test, and fails again in the same way.
"""

from __future__ import annotations

import functools

import pytest
from support import simulated as sim
from support import streaming
from support.streaming import seeds

from rlcore.errors import WorkerLost
from rlcore.evaluator_set import EvaluatorSet
from rlcore.places import TRIES
from rlcore.runtime.base import Runtime
from rlcore.runtime.inline import InlineRuntime
from rlcore.runtime.sim import SimRuntime
from rlcore.runtime.sim.chance import SimulatedError
from rlcore.testing.linear import LinearPG
from rlcore.weights_digest import weights_sha256

rlcore_es = pytest.importorskip("rlcore_es")
pytest.importorskip("rlcore_sync")

MEMBERS, INNER_STEPS, STEPS = 5, 2, 3
SETTINGS = {
    "members": MEMBERS,
    "inner": {"name": "multi_gpu", "epochs": 2, "minibatch_size": 4},
    "inner_steps": INNER_STEPS,
    "noise_std": 0.3,
}
#: Calls on one worker: a task, weights, and what a new one is told, twice where it had no room at first.
MOST_IN_FLIGHT = 6
#: Of so many seeds so many runs reach their end at the least, and so many without an update skipped.
FIRST_SEEDS, REACH_THE_END, WITH_EVERY_UPDATE = range(12), 9, 6


class Evolving:
    """It at work, and whom it has lost."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.losses: list[int] = []
        make = functools.partial(streaming.evaluator, LinearPG, {})
        self.set = EvaluatorSet(
            runtime,
            make(0),
            [functools.partial(make, i) for i in range(3)],
            timeout_s=sim.TIMEOUT_S,
            on_loss=lambda index, cause: self.losses.append(index),
        )
        config = rlcore_es.NestedES.Config(**SETTINGS)
        self.optimizer = rlcore_es.NestedES(self.set.local, self.set, runtime, config, ("default",))

    def run(self) -> tuple[list[str], int]:
        """The weights after each step, and how many updates were skipped. An evaluator that fails again and again ends
        the run, rightly."""
        found, skipped = list[str](), 0
        for _ in range(STEPS):
            try:
                result = self.optimizer.step()
            except (WorkerLost, SimulatedError) as error:
                # What averaging raises is the program's fault and not an evaluator's.
                if "in average of" not in str(error):
                    assert max(map(self.losses.count, self.losses)) >= TRIES - 1, repr(error)
                break
            # Each member's environment steps once, whoever was lost on the way.
            assert result.env_steps == MEMBERS * INNER_STEPS * sim.ROWS
            assert self.set.env_steps == result.env_steps * (len(found) + 1)
            found.append(weights_sha256(self.optimizer.get_weights()))
            skipped += result.skipped_updates
        return found, skipped


@functools.cache
def expected() -> list[str]:
    """The weights where nothing goes wrong, in one process."""
    return Evolving(InlineRuntime()).run()[0]


@pytest.mark.parametrize("seed", seeds(range(16), range(16, 400)))
def test_whatever_fails(seed: int) -> None:
    """The weights are those of one process, up to the first generation whose members are lost with their machines."""
    one = Evolving(SimRuntime(sim.faults(seed)))
    found, skipped = one.run()
    runtime: SimRuntime = one.runtime  # type: ignore[assignment]
    assert skipped or found == expected()[: len(found)]
    assert runtime.most_in_flight <= MOST_IN_FLIGHT
    assert runtime.now() <= sim.time_bound(runtime.faults, STEPS)


def test_most_runs_reach_their_end() -> None:
    """The others lose more than may be lost."""
    runs = [Evolving(SimRuntime(sim.faults(seed))).run()[0] for seed in FIRST_SEEDS]
    assert sum(len(found) == STEPS for found in runs) >= REACH_THE_END
    assert sum(found == expected() for found in runs) >= WITH_EVERY_UPDATE


@pytest.mark.parametrize("seed", range(4))
def test_without_faults_nothing_is_lost(seed: int) -> None:
    one = Evolving(SimRuntime(sim.delays(seed)))
    assert one.run() == (expected(), 0) and not one.losses
