"""A simulated cluster for Ape-X: its driver's program is the real one and is timed, its workers are light.

The workers' calls take the time, and their values have the size, that is stated.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
from apex_costs import MINIBATCH, LearningCosts, SampleCosts
from ray_calls import CallCosts
from simulated_driver import BYTES_PER_S, LATENCY_S, Counting, TimedDriver

import rlcore_apex.apex
from rlcore.evaluator_messages import Metrics, SampleInfo
from rlcore.evaluator_set import EvaluatorSet
from rlcore.learner_actor import LearnerReport
from rlcore.minibatches import Learnt
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Progress
from rlcore.policy_optimizer import MeanStats
from rlcore.runtime.sim import Cost, SimConfig
from rlcore.runtime.sim.calls import Bulk
from rlcore.sampling.collect import Fragment
from rlcore.snapshots import SnapshotKeeper
from rlcore.testing.environments import Count
from rlcore.testing.linear_q import LinearQ
from rlcore_apex import Apex, ApexConfig
from rlcore_apex.replay_actor import Drawn

FRAMES_A_STEP = 4
#: Virtual seconds that are let go by first, and that are counted then.
WARMING_S, COUNTED_S = 2.0, 4.0


@dataclasses.dataclass(frozen=True)
class Scenario:
    """What a cluster is like."""

    name: str
    sample: SampleCosts
    learning: LearningCosts


@dataclasses.dataclass(frozen=True)
class Load:
    """What became of one cluster.

    Frames and minibatches a second; the shares of the time for which the driver, each worker, each replay actor and the
    learner were busy, and the link on which the learner sends weights; and the driver's microseconds for a sample, with
    everything that goes with it: in all, and of its own program alone.
    """

    scenario: str
    workers: int
    replay_actors: int
    frames_per_s: float
    updates_per_s: float
    driver: float
    worker: float
    replay: float
    learner: float
    link: float
    driver_us: float
    program_us: float


# -- light workers


class LightEvaluator(Counting):
    """Gives samples of a size."""

    def __init__(self, sample: SampleCosts) -> None:
        super().__init__()
        self._sample = sample
        self._number = 0
        self._version = 0

    def sample_counted(self) -> tuple[SampleInfo, Bulk]:
        self.note("sample")
        self._number += 1
        rows = {"default": self._sample.env_steps}
        info = SampleInfo(self._number, self._sample.env_steps, rows, dict(rows), self._version, {}, Metrics())
        return info, Bulk(self._sample.bytes)

    def receive(self, update: Any, weights: Bulk) -> None:
        self.note("receive")
        self._version = update.version

    def slots(self) -> int:
        return 1

    def set_filters(self, statistics: Any) -> None:
        """Takes them."""

    def call(self, *utility: Any) -> None:
        """Explores as it is told."""


class LightReplay(Counting, SnapshotKeeper):
    """Stores nothing, and draws minibatches of a size. The parts of a replay actor are of no use to it."""

    def __init__(self, minibatch_bytes: int, *parts: Any) -> None:
        super().__init__()
        self._bytes = minibatch_bytes

    def add(self, batch: Bulk) -> dict[str, int]:
        self.note("add")
        return {"default": 1_000_000}

    def draw(self, policy_id: str, rows: int, beta: float) -> tuple[Drawn, Bulk]:
        self.note("draw")
        return Drawn(policy_id, 0), Bulk(self._bytes)

    def take(self, new: Bulk) -> None:
        self.note("take")


class LightLearner(Counting):
    """Learns nothing. The parts of a learner are of no use to it."""

    def __init__(self, costs: LearningCosts, *parts: Any) -> None:
        super().__init__()
        self._costs = costs

    def learn(self, drawn: Drawn, minibatch: Bulk, env_steps: int) -> tuple[LearnerReport, Bulk]:
        self.note("learn")
        # Of each row an index and a TD error.
        learnt = Learnt(MINIBATCH, 1, 0, MeanStats())
        return LearnerReport(learnt, self._costs.learn_s, 0.0), Bulk(12 * MINIBATCH)

    def acting_weights(self) -> tuple[dict[str, Progress], Bulk]:
        return {"default": Progress(0, 0, 0, {})}, Bulk(self._costs.weights_bytes)

    def snapshot(self) -> tuple[None, Bulk]:
        return None, Bulk(self._costs.state_bytes)


# -- one cluster


def simulate(scenario: Scenario, calls: CallCosts, workers: int, replay_actors: int) -> Load:
    """Some seconds of it."""
    costs = method_costs(scenario, calls)
    config = SimConfig(
        costs=costs, call=Cost(seconds=calls.worker_s), latency=Cost(seconds=LATENCY_S), bytes_per_s=BYTES_PER_S
    )
    runtime = TimedDriver(config, calls)
    optimizer, evaluators = _parts(runtime, scenario, workers, replay_actors)
    learner = optimizer._learner.crew
    crews = {"worker": evaluators.handles, "replay": optimizer._replay.handles, "learner": learner.handles}
    counted = []
    # The simulation's own objects would be collected in the driver's time.
    gc.disable()
    for end in (WARMING_S, WARMING_S + COUNTED_S):
        while runtime.now() < end:
            optimizer.step()
            evaluators.metrics()
        counted.append(_counts(runtime, crews))
    gc.enable()
    load = _load(scenario, costs, (workers, replay_actors), counted)
    runtime.close()
    return load


def _parts(
    runtime: TimedDriver, scenario: Scenario, workers: int, replay_actors: int
) -> tuple[Apex, EvaluatorSet]:
    local = PolicyEvaluator(
        env=lambda num_envs: Count(num_envs, 5), graph=LinearQ, num_envs=1, collect=Fragment(1), rng=0
    )
    evaluators = EvaluatorSet(runtime, local, [functools.partial(LightEvaluator, scenario.sample)] * workers)
    # No bound on the replay ratio: everyone goes as fast as they can, as in the paper.
    settings = ApexConfig(learning_starts=1, minibatch_size=MINIBATCH, replay_actors=replay_actors, rounds=1)
    replay = functools.partial(LightReplay, scenario.learning.minibatch_bytes)
    learner = functools.partial(LightLearner, scenario.learning)
    with patch.multiple(rlcore_apex.apex, ReplayActor=replay, ApexLearner=learner):
        return Apex(local, evaluators, runtime, settings, ("default",)), evaluators


def method_costs(scenario: Scenario, calls: CallCosts) -> dict[str, Cost]:
    """Of the calls that do something; what Ray needs in the worker is added to all."""
    sample, learning = scenario.sample, scenario.learning
    seconds = {
        "sample_counted": sample.seconds,
        "add": sample.add_s,
        "draw": learning.draw_s,
        "take": learning.take_s,
        "learn": learning.learn_s,
    }
    spreads = {"sample_counted": sample.spread}
    return {
        method: Cost(seconds=own + calls.worker_s, spread=spreads.get(method, 0.0)) for method, own in seconds.items()
    }


def _counts(runtime: TimedDriver, crews: dict[str, Sequence[Any]]) -> dict[str, Any]:
    counts = {
        crew: [dict(handle.inner.worker.counts) if handle.inner.worker else {} for handle in handles]
        for crew, handles in crews.items()
    }
    return {"now": runtime.now(), "program": runtime.watch.program_s, "calls": runtime.watch.calls_s, **counts}


def _load(scenario: Scenario, costs: dict[str, Cost], size: tuple[int, int], snapshots: list[dict[str, Any]]) -> Load:
    before, after = snapshots
    seconds = after["now"] - before["now"]

    def count(crew: str, i: int, method: str) -> int:
        return int(after[crew][i].get(method, 0) - before[crew][i].get(method, 0))

    def busy(crew: str, methods: dict[str, str]) -> float:
        shares = [
            sum(count(crew, i, name) * costs[method].seconds for name, method in methods.items()) / seconds
            for i in range(len(after[crew]))
        ]
        return float(np.mean(shares))

    samples = sum(count("worker", i, "sample") for i in range(size[0]))
    sent = sum(count("worker", i, "receive") for i in range(size[0]))
    updates = count("learner", 0, "learn")
    program_s, calls_s = (after[name] - before[name] for name in ("program", "calls"))
    return Load(
        scenario.name,
        *size,
        frames_per_s=samples * scenario.sample.env_steps * FRAMES_A_STEP / seconds,
        updates_per_s=updates / seconds,
        driver=(program_s + calls_s) / seconds,
        worker=busy("worker", {"sample": "sample_counted"}),
        replay=busy("replay", {name: name for name in ("add", "draw", "take")}),
        learner=busy("learner", {"learn": "learn"}),
        link=sent * scenario.learning.weights_bytes / BYTES_PER_S / seconds,
        driver_us=1e6 * (program_s + calls_s) / samples,
        program_us=1e6 * program_s / samples,
    )
