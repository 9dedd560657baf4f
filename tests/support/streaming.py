"""Optimizers that wait for nobody on simulated clusters, and what must hold of all of them whatever happens."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from support import simulated as sim

from rlcore.errors import RlcoreError, WorkerFailed, WorkerLost
from rlcore.evaluator_set import EvaluatorSet
from rlcore.places import TRIES
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import PolicyGraph
from rlcore.policy_optimizer import PolicyOptimizer, StepResult
from rlcore.runtime.base import Runtime
from rlcore.runtime.sim.chance import SimulatedError
from rlcore.sample_stream import Sample
from rlcore.sampling.collect import Fragment
from rlcore.sampling.filters import MeanStd
from rlcore.snapshots import Snapshots
from rlcore.testing.environments import Count

EVALUATORS = 3
#: Of so many seeds so many runs reach their end at the least; the others lose more than may be lost.
FIRST_SEEDS, REACH_THE_END = range(24), 18
#: Steps of the optimizer, and samples of each evaluator in one of them.
OPTIMIZER_STEPS, ROUNDS = 5, 4


def evaluator(graph: type[PolicyGraph], config: Mapping[str, Any], index: int) -> PolicyEvaluator:
    """One that samples ``sim.ROWS`` rows."""
    return PolicyEvaluator(
        env=lambda num_envs: Count(num_envs, 5),
        graph=graph,
        config=config,
        num_envs=sim.ENVS,
        collect=Fragment(sim.STEPS),
        rng=np.random.SeedSequence(1, spawn_key=(index,)),
        index=index,
        observation_filter=MeanStd,
    )


class Training:
    """An optimizer at work, whom it has lost, and every sample that it has taken in."""

    #: What it trains.
    graph: type[PolicyGraph]
    graph_config: Mapping[str, Any] = {}
    evaluators = EVALUATORS

    def __init__(
        self, kind: type[PolicyOptimizer], config: Mapping[str, Any], runtime: Runtime, timeout_s: float
    ) -> None:
        self.runtime: Any = runtime
        self.losses: list[tuple[str, int]] = []
        make = functools.partial(evaluator, self.graph, self.graph_config)
        self.set = EvaluatorSet(
            runtime,
            make(0),
            [functools.partial(make, i) for i in range(self.evaluators)],
            timeout_s=timeout_s,
            on_loss=lambda index, cause: self.losses.append(("evaluator", index)),
            on_other_loss=lambda worker, index, cause: self.losses.append((worker, index)),
        )
        own = kind.Config(**{"rounds": ROUNDS, **config})
        self.optimizer: Any = kind(self.set.local, self.set, runtime, own, ("default",))
        self.samples: list[Sample] = []
        arrived = self.optimizer.samples.arrived

        def noting(most: int) -> list[Sample]:
            found: list[Sample] = arrived(most)
            self.samples += found
            return found

        self.optimizer.samples.arrived = noting

    @property
    def snapshots(self) -> Sequence[Snapshots]:
        """What those go on from that hold what has been learnt."""
        return [self.optimizer._learner._snapshots]

    def run(self, steps: int = OPTIMIZER_STEPS) -> Iterator[StepResult]:
        """So many steps, or fewer: an evaluator that fails again and again ends the run, rightly; so does the loss of
        what has been learnt with everyone who kept it."""
        for _ in range(steps):
            try:
                result = self.optimizer.step()
                self.set.metrics()
            except (WorkerFailed, WorkerLost, SimulatedError) as error:
                again = any("was replaced after this" in note for note in getattr(error, "__notes__", []))
                # What others than evaluators raise is the program's fault.
                assert again or isinstance(error, WorkerFailed), repr(error)
                assert not again or max(self.losses.count(place) for place in set(self.losses)) >= TRIES - 1
                return
            except RlcoreError as error:
                holders = [one._holders.values() for one in self.snapshots]
                gone = [all(handle.worker is None for handle in own) for own in holders]  # type: ignore[attr-defined]
                assert any(gone) and re.search("from a checkpoint|its last snapshot", str(error)), repr(error)
                return
            yield result

    def versions(self, index: int) -> list[int]:
        """Of the weights that acted in an evaluator's place."""
        return [sample.info.version for sample in self.samples if sample.index == index]

    def ended_in_time(self, in_flight: int) -> None:
        """No fault held it up for long, and nobody was ever sent more calls."""
        assert self.runtime.now() <= sim.time_bound(self.runtime.faults, OPTIMIZER_STEPS * ROUNDS * 4)
        assert self.runtime.most_in_flight <= in_flight


def reach_the_end(trainings: Iterable[Training]) -> int:
    """How many of them take all of their steps."""
    return sum(len(list(one.run())) == OPTIMIZER_STEPS for one in trainings)


def digest(one: Training) -> tuple[Any, ...]:
    """Equal ones, equal runs, event by event."""
    steps = [(result.env_steps, result.learnt_rows, result.stats) for result in one.run()]
    return one.runtime.journal.digest(), steps, one.losses


def seeds(few: range, many: range) -> list[Any]:
    """The few in every run of the tests, the many when they are asked for."""
    return [*few, *(pytest.param(seed, marks=pytest.mark.slow) for seed in many)]
