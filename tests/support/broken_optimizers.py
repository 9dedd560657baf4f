"""A small optimizer that keeps all rules, and others made from it that break one each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from rlcore.batch import MultiAgentBatch, T
from rlcore.learner import Learner
from rlcore.policy_graph import Weights
from rlcore.policy_optimizer import MeanStats, OptimizerConfig, PolicyOptimizer, StepResult


class SimpleConfig(OptimizerConfig):
    """``minibatches`` is how many updates come of each round."""

    minibatches: int = 2
    seed: int = 3


class Simple(PolicyOptimizer):
    """Learns from every round in a few shuffled minibatches, and broadcasts."""

    Config = SimpleConfig
    config: SimpleConfig

    def __init__(self, local: Any, evaluators: Any, runtime: Any, config: Any, trains: tuple[str, ...]) -> None:
        super().__init__(local, evaluators, runtime, config, trains)
        self.learner = Learner({policy_id: local.graph_spec(policy_id) for policy_id in self.learnt()})
        self.reader = evaluators.reader()
        self.rng = np.random.default_rng(config.seed)

    def learnt(self) -> tuple[str, ...]:
        return self.trains

    def collect(self) -> MultiAgentBatch:
        return self.evaluators.fetch(self.reader.round(), self.learnt())

    def parts(self, count: int) -> list[Any]:
        return np.array_split(self.rng.permutation(count), self.config.minibatches)

    def broadcast(self) -> None:
        self.evaluators.broadcast(self.learner.acting_weights(), self.learner.progress)

    def advance(self, env_steps: int) -> None:
        self.learner.advance(env_steps)

    def learn(self, pinned: Any, stats: MeanStats) -> tuple[int, int]:
        updates = rows = 0
        for policy_id, own in pinned.items():
            for units in self.parts(own.rows):
                output = self.learner.learn({policy_id: own}, {policy_id: units})[policy_id]
                if not output.skipped:
                    stats.add(policy_id, output.stats)
                updates, rows = updates + 1, rows + len(units)
        return updates, rows

    def step(self) -> StepResult:
        now = self.runtime.now
        started = now()
        batch = self.collect()
        sampled = now()
        self.advance(batch.env_steps)
        stats, skipped = MeanStats(), self.learner.skipped_updates
        updates, rows = self.learn(self.learner.pin(batch), stats)
        skipped = self.learner.skipped_updates - skipped
        learnt = now()
        self.broadcast()
        timers = {"sample_s": sampled - started, "learn_s": learnt - sampled, "sync_s": now() - learnt}
        return StepResult(batch.env_steps, rows, updates - skipped, skipped, stats=stats.mean(), timers=timers)

    def get_weights(self) -> dict[str, Weights]:
        return self.learner.get_weights()

    def get_state(self) -> dict[str, Any]:
        return {"learner": self.learner.get_state(), "rng": self.rng.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> None:
        self.learner.set_state(state["learner"])
        self.rng.bit_generator.state = state["rng"]


def result(**changes: Any) -> type[Simple]:
    """Simple whose results are others."""

    class Other(Simple):
        def step(self) -> StepResult:
            return replace(super().step(), **changes)

    return Other


class NotAnOptimizer:
    Config = SimpleConfig
    trains = ("default",)

    def __init__(self, *args: Any) -> None:
        pass


class CannotBeBuilt(Simple):
    def __init__(self, *args: Any) -> None:
        raise RuntimeError("out of order")


class LooseConfig(SimpleConfig):
    model_config = ConfigDict(extra="ignore")


class TakesAnySetting(Simple):
    Config = LooseConfig


class PlainConfig(BaseModel):
    minibatches: int = 2
    seed: int = 3


class NoOptimizerConfig(Simple):
    Config = PlainConfig  # type: ignore[assignment]


class GivesADict(Simple):
    def step(self) -> Any:
        return {"updates": super().step().updates}


class NeverUpdates(Simple):
    def learn(self, pinned: Any, stats: MeanStats) -> tuple[int, int]:
        return 0, 0


class CountsTwice(Simple):
    def step(self) -> StepResult:
        done = super().step()
        return replace(done, env_steps=2 * done.env_steps)


class CountsSlots(Simple):
    def step(self) -> StepResult:
        done = super().step()
        return replace(done, env_steps=done.env_steps // 4)


class DropsTheLast(Simple):
    """Leaves out the last minibatch, and does not say so."""

    def parts(self, count: int) -> list[Any]:
        return super().parts(count)[:-1]


class SaysWhatItDrops(Simple):
    """Leaves out the last minibatch, and says so. This is allowed."""

    def parts(self, count: int) -> list[Any]:
        parts = super().parts(count)
        self.dropped = len(parts[-1])
        return parts[:-1]

    def step(self) -> StepResult:
        done = super().step()
        return replace(done, dropped_rows=self.dropped)


class InventsRows(Simple):
    def collect(self) -> MultiAgentBatch:
        batch = super().collect()
        later = {name: own.with_rows(**{T: own[T] + 1000}) for name, own in batch.items()}
        return MultiAgentBatch(later, batch.env_steps)


class NeverAdvances(Simple):
    def advance(self, env_steps: int) -> None:
        pass


class LearnsNaN(Simple):
    """Takes what is not finite for a reason to give up every weight."""

    def learn(self, pinned: Any, stats: MeanStats) -> tuple[int, int]:
        before = self.learner.skipped_updates
        done = super().learn(pinned, stats)
        if self.learner.skipped_updates > before:
            for graph in self.learner.graphs.values():
                graph.set_weights({name: array * np.nan for name, array in graph.get_weights().items()})
        return done


class HidesSkipped(Simple):
    def step(self) -> StepResult:
        return replace(super().step(), skipped_updates=0)


class GivesUp(Simple):
    def learn(self, pinned: Any, stats: MeanStats) -> tuple[int, int]:
        return (0, 0) if self.learner.skipped_updates else super().learn(pinned, stats)


class GivesAllWeights(Simple):
    def get_weights(self) -> dict[str, Weights]:
        return {**self.local.get_weights(), **super().get_weights()}


class Unlearns(Simple):
    """Begins anew in every step."""

    def broadcast(self) -> None:
        for policy_id, graph in self.learner.graphs.items():
            graph.set_state(self.local.graph_spec(policy_id).build().get_state())
        super().broadcast()


class NeverBroadcasts(Simple):
    def broadcast(self) -> None:
        pass


class UnseededDraws(Simple):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.rng = np.random.default_rng()


class ObjectState(Simple):
    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "rng": self.rng}


class ForgetsDraws(Simple):
    def set_state(self, state: dict[str, Any]) -> None:
        self.learner.set_state(state["learner"])


class PrefersTheDriver(Simple):
    """Learns twice where the driver's own evaluator samples."""

    def learn(self, pinned: Any, stats: MeanStats) -> tuple[int, int]:
        if self.evaluators.local_samples:
            super().learn(pinned, stats)
        return super().learn(pinned, stats)


class TrainsTheFirst(Simple):
    def collect(self) -> MultiAgentBatch:
        return super().collect().select(self.trains[:1])


class TrainsEverything(Simple):
    """Trains what it finds, whoever else does."""

    def learnt(self) -> tuple[str, ...]:
        return tuple(self.local.policies)

    def get_weights(self) -> dict[str, Weights]:
        weights = super().get_weights()
        return {policy_id: weights[policy_id] for policy_id in self.trains}


class SamplesByItself(Simple):
    """Has evaluators sample for it alone, and more than once."""

    def collect(self) -> MultiAgentBatch:
        first = super().collect()
        if self.trains == ("right",):
            return first
        _, batch = self.runtime.get(list(self.evaluators.handles[0].submit("sample_counted", returns=2)))
        return MultiAgentBatch(first.policies, first.env_steps + batch.env_steps)


class OnlyBeginsBeside(Simple):
    """Learns nothing where another optimizer reads the same samples."""

    def learn(self, pinned: Any, stats: MeanStats) -> tuple[int, int]:
        if len(self.local.policies) > len(self.trains) and self.trains == ("right",):
            return 0, 0
        return super().learn(pinned, stats)


class BreaksOnFinished(Simple):
    def __init__(self, local: Any, *args: Any) -> None:
        local._specs["default"]
        super().__init__(local, *args)


class TakesFinished(Simple):
    def __init__(self, local: Any, evaluators: Any, runtime: Any, config: Any, trains: Any) -> None:
        if not local._specs:
            trains = ()
        super().__init__(local, evaluators, runtime, config, trains)
