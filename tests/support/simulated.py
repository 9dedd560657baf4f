"""Optimizers on simulated clusters that a seed makes slow and faulty, and what must hold of them whatever happens."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from support.toy_graph import ToyGraph

from rlcore.errors import WorkerLost
from rlcore.evaluator_set import EvaluatorSet
from rlcore.members import STARTING_S
from rlcore.places import TRIES
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_optimizer import PolicyOptimizer, StepResult
from rlcore.runtime.base import Runtime
from rlcore.runtime.sim import Cost, Rates, SimConfig, SimRuntime
from rlcore.runtime.sim.chance import SimulatedError
from rlcore.runtime.sim.config import FaultKind, SlowWorker, Stragglers
from rlcore.sampling.collect import Fragment
from rlcore.sampling.filters import MeanStd
from rlcore.testing.environments import Count

#: Where the optimizers are.
HOMES = {
    "multi_gpu": ("rlcore_sync", "MultiGPU"),
    "allreduce": ("rlcore_sync", "AllReduce"),
    "replay": ("rlcore_replay", "Replay"),
}

ENVS, STEPS = 2, 4
#: Rows of one evaluator's sample.
ROWS = ENVS * STEPS
TIMEOUT_S = 5.0


def delays(seed: int, **others: Any) -> SimConfig:
    """A cluster with stragglers, slow workers and slow messages, on which nothing fails."""
    draw = random.Random(seed)
    return SimConfig(
        seed=seed,
        costs={"sample_counted": Cost(seconds=0.1, spread=draw.choice([0.0, 0.5, 1.0])), "start": 1.0},
        call=Cost(seconds=0.002, spread=1.0),
        latency=Cost(seconds=0.001, spread=draw.choice([0.0, 0.5, 2.0])),
        bytes_per_s=draw.choice([None, 1e9, 1e5]),
        inline_bytes=draw.choice([0, 200, 100_000]),
        slow_workers=[SlowWorker(worker=draw.randrange(3), factor=draw.choice([1.0, 5.0]))],
        stragglers=Stragglers(probability=draw.choice([0.0, 0.02, 0.1]), factor=draw.choice([3.0, 30.0])),
        **others,
    )


def faults(seed: int) -> SimConfig:
    """The same, and workers crash, hang and raise, and messages are lost."""
    draw = random.Random(~seed)
    kinds = draw.sample(list(FaultKind), k=draw.randint(1, 3))
    rates = {kind.value: draw.choice([0.01, 0.03, 0.1]) for kind in kinds}
    return delays(seed, rates=Rates(**rates, limit=draw.randint(1, 6)), max_seconds=50_000.0, max_events=200_000)


class Recording(ToyGraph):
    """Notes which rows it has learnt from: ``(episode, t)``."""

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self.rows: list[tuple[int, int]] = []

    def gradients(self, batch: Any, units: Any = None) -> Any:
        ids = rows_of(batch)
        self.rows += ids if units is None else [ids[unit] for unit in units]
        return super().gradients(batch, units)


def rows_of(batch: Any) -> list[tuple[int, int]]:
    """``(episode, t)`` of every row."""
    episodes = np.repeat(batch.cuts["eps_id"], batch.cuts["length"])
    return list(zip(episodes.tolist(), batch["t"].tolist(), strict=True))


def evaluator(index: int) -> PolicyEvaluator:
    """One that samples ``ROWS`` rows."""
    return PolicyEvaluator(
        env=lambda num_envs: Count(num_envs, 5),
        graph=Recording,
        config={"step": 0.01},
        num_envs=ENVS,
        collect=Fragment(STEPS),
        rng=np.random.SeedSequence(1, spawn_key=(index,)),
        index=index,
        observation_filter=MeanStd,
    )


@dataclass
class Simulated:
    """An optimizer with its evaluators on a runtime, and what has become of them."""

    runtime: Runtime
    optimizer_name: str
    count: int = 3
    settings: dict[str, Any] = field(default_factory=dict)
    timeout_s: float = TIMEOUT_S
    losses: list[tuple[int, str]] = field(default_factory=list)
    #: Of each evaluator's place, the versions that its samples were acted with; of each round, its infos.
    versions: dict[int, list[int]] = field(default_factory=dict)
    rounds: list[list[Any]] = field(default_factory=list)
    fetched: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.set = EvaluatorSet(
            self.runtime,
            evaluator(0),
            [functools.partial(evaluator, i) for i in range(self.count)],
            timeout_s=self.timeout_s,
            on_loss=lambda index, cause: self.losses.append((index, cause)),
        )
        module, name = HOMES[self.optimizer_name]
        kind = getattr(pytest.importorskip(module), name)
        self.optimizer: PolicyOptimizer = kind(
            self.set.local, self.set, self.runtime, kind.Config(**self.settings), ("default",)
        )
        self._watch()

    def _watch(self) -> None:
        """Looks at samples as the optimizer gets them."""
        take, fetch = self.optimizer.reader.round, self.set.fetch

        def round_() -> Any:
            samples = take()
            for index, sample in enumerate(samples):
                self.versions.setdefault(index, []).append(sample.info.version)
            self.rounds.append([sample.info for sample in samples])
            return samples

        def fetched(*args: Any) -> Any:
            batch = fetch(*args)
            self.fetched.append(batch["default"])
            return batch

        self.optimizer.reader.round = round_  # type: ignore[method-assign]
        self.set.fetch = fetched  # type: ignore[method-assign]

    def weights(self) -> list[float]:
        """Those of the driver."""
        found: list[float] = self.optimizer.get_weights()["default"]["w"].tolist()
        return found


def run(one: Simulated, steps: int) -> Iterable[StepResult]:
    """So many steps, or fewer: an evaluator that fails again and again ends the run, rightly."""
    for _ in range(steps):
        try:
            result = one.optimizer.step()
            one.set.get_state()
        except (WorkerLost, SimulatedError) as error:
            # What a loss raises is the program's fault and not the worker's.
            if any(f"in {method} of" in str(error) for method in ("gradients_apart", "average")):
                return
            notes = getattr(error, "__notes__", [])
            assert any("was replaced after this" in note for note in notes), f"it need not have ended: {error!r}"
            assert max(sum(place == i for place, _ in one.losses) for i in range(one.count)) >= TRIES - 1
            return
        yield result


def missing_samples(one: Simulated) -> int:
    """How many samples rounds went on without since this was asked last, because there was no room for an evaluator."""
    return sum(own.missing_samples for own in one.set.metrics())


def time_bound(faulty: int, steps: int) -> float:
    """Virtual seconds that a run may take: every fault costs a time-out at most, and stragglers are given up."""
    return (faulty + steps * 40 + 4) * (STARTING_S + TIMEOUT_S)


def simulated(config: SimConfig, optimizer: str, **others: Any) -> Simulated:
    """On a cluster of its own."""
    return Simulated(SimRuntime(config), optimizer, **others)
