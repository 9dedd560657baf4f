"""Evolution around another optimizer: members learn before they are judged, and pass on what they have learnt.

Liang et al. 2018 (RLlib), section 5: PPO-ES and A3C-ES, hybrids that leave PPO and A3C as they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from rlcore import registry
from rlcore.config import ResolvedOptimizer
from rlcore.crew import LOST
from rlcore.errors import WorkerLost
from rlcore.evaluator_messages import SampleInfo
from rlcore.evaluator_set import EvaluatorSet
from rlcore.in_flight import Arrival, InFlight
from rlcore.ledger import Ledger
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Weights
from rlcore.policy_optimizer import OptimizerConfig, PolicyOptimizer, StepResult
from rlcore.runtime.base import Ref, Runtime
from rlcore.runtime.inline import InlineRuntime
from rlcore.schedule import NonNegativeSchedule, value_at
from rlcore.validation import validate_plain
from rlcore_es.es import moved
from rlcore_es.exact_statistics import added, deltas, exact
from rlcore_es.layout import Layout


class NestedESConfig(OptimizerConfig):
    """Settings of ``nested_es``."""

    #: The optimizer that each member learns with, ``name`` and its own settings beside it, and how many of its steps.
    inner: ResolvedOptimizer = ResolvedOptimizer(name="multi_gpu")
    inner_steps: PositiveInt = 1
    #: In antithetic pairs; an odd one out is the policy as it is.
    members: int = Field(8, ge=2)
    #: Of the noise on the weights that deterministic actions depend on, by environment steps.
    noise_std: NonNegativeSchedule = 0.05
    #: Only the better members pass on what they have learnt: so large a part of them.
    parents: float = Field(0.5, gt=0.0, le=1.0)
    seed: int = Field(0, ge=0)


@dataclass(frozen=True)
class Apprentice:
    """One member of a generation: its noise, and the optimizer that it learns with in an evaluator's environments."""

    config: NestedESConfig
    layouts: Mapping[str, Layout]
    generation: int
    number: int
    noise_std: float

    def perform(
        self, evaluator: PolicyEvaluator, states: dict[str, dict[str, Any]]
    ) -> tuple[tuple[float, SampleInfo], dict[str, Weights]]:
        """Its return, and what it has played; and the weights that it has come to."""
        starts = {policy_id: self._moved(policy_id, state) for policy_id, state in states.items()}
        specs = {
            policy_id: replace(evaluator.graph_spec(policy_id), start=starts.get(policy_id))
            for policy_id in evaluator.policies
        }
        runtime = InlineRuntime()
        local = evaluator.fork(specs, np.random.SeedSequence([self.config.seed, self.generation, self.number]))
        evaluators = EvaluatorSet(runtime, local)
        kind = registry.load("optimizer", self.config.inner.name)
        optimizer = kind(local, evaluators, runtime, inner_config(self.config), tuple(states))
        for _ in range(self.config.inner_steps):
            optimizer.step()
        (metrics,) = evaluators.metrics()
        returns = [episode.episode_return for episode in metrics.episodes]
        seen = added(exact(evaluator.filter_statistics()), exact(evaluators.filter_statistics()))
        played = SampleInfo(self.generation, evaluators.env_steps, {}, {}, 0, deltas(seen), metrics)
        return (float(np.mean(returns)) if returns else -np.inf, played), optimizer.get_weights()

    def _moved(self, policy_id: str, state: dict[str, Any]) -> dict[str, Any]:
        """The state of a policy's graph with noise on its weights: of the two of a pair, plus and minus the same."""
        pair, second = divmod(self.number, 2)
        alone = self.number == self.config.members - 1 and not second
        layout = self.layouts[policy_id]
        rng = np.random.default_rng([self.config.seed, self.generation, pair, sorted(self.layouts).index(policy_id)])
        noise = rng.standard_normal(layout.size) * (0.0 if alone else self.noise_std) * (-1.0 if second else 1.0)
        weights = layout.weights(layout.flatten(state["weights"]) + noise)
        return {**state, "weights": {**state["weights"], **weights}}


def inner_config(config: NestedESConfig) -> OptimizerConfig:
    """The settings of the inner optimizer, checked. ``ConfigError`` for what it does not know."""
    kind = registry.load("optimizer", config.inner.name)
    return validate_plain(kind.Config, config.inner.settings, "optimizer.inner", beside=["name"])


class NestedES(PolicyOptimizer):
    """In each step members learn, each from weights of its own around the policy's; the policy becomes what the better
    ones have come to, weighted by rank. Weights are averaged where they are, and come here as one."""

    Config = NestedESConfig
    config: NestedESConfig
    conformance: ClassVar[Mapping[str, Any]] = {
        "config": {"members": 2, "inner": {"name": "multi_gpu", "epochs": 4}, "inner_steps": 2},
        "uses_every_row": False,
    }

    def __init__(
        self,
        local: PolicyEvaluator,
        evaluators: EvaluatorSet,
        runtime: Runtime,
        config: NestedESConfig,
        trains: tuple[str, ...],
    ) -> None:
        super().__init__(local, evaluators, runtime, config, trains)
        inner_config(config)
        self._graphs = {policy_id: local.graph_spec(policy_id).build() for policy_id in trains}
        graphs = self._graphs.items()
        self._layouts = {name: Layout.of(graph.get_weights(), moved(name, graph)) for name, graph in graphs}
        self._calls: InFlight[int] = InFlight(runtime, evaluators.crew, 1)
        self._ledger = Ledger(trains)
        self._generation = 0

    def step(self) -> StepResult:
        now = self.runtime.now
        started = now()
        learnt = self._learnt()
        for arrival in learnt:
            self.evaluators.count(arrival.index, arrival.value[1])
        sampled, env_steps = now(), sum(arrival.value[1].env_steps for arrival in learnt)
        self._ledger.advance(env_steps)
        stats = self._follow(np.array([one.value[0] for one in learnt]), [one.others[0] for one in learnt])
        self._generation += 1
        ended = now()
        self.evaluators.broadcast(
            {name: graph.get_weights(graph.acting) for name, graph in self._graphs.items()}, self._ledger.progress
        )
        timers = {"sample_s": sampled - started, "learn_s": ended - sampled, "sync_s": now() - ended}
        skipped = len(self.trains) * (not stats)
        return StepResult(env_steps, env_steps, len(self.trains) - skipped, skipped, stats=stats, timers=timers)

    def _learnt(self) -> list[Arrival[int]]:
        """What has become of every member, in their order; one that is lost begins anew elsewhere."""
        states = self.runtime.put(self.graph_states())
        noise_std = value_at(self.config.noise_std, self._ledger.progress[self.trains[0]].env_steps)
        todo, found = deque(range(self.config.members)), list[Arrival[int]]()
        while len(found) < self.config.members:
            for index in self._calls.idle()[: len(todo)]:
                number = todo.popleft()
                member = Apprentice(self.config, self._layouts, self._generation, number, noise_std)
                self._calls.submit(index, number, "perform", member, states, returns=2)
            patience = self._calls.patience()
            self.runtime.wait(self._calls.next, 1, None if patience == float("inf") else patience)
            for arrival in self._calls.arrived():
                if arrival.value is LOST:
                    todo.append(arrival.note)
                else:
                    found.append(arrival)
        return sorted(found, key=lambda arrival: arrival.note)

    def _follow(self, returns: NDArray[np.float64], weights: list[Ref]) -> dict[str, dict[str, float]]:
        """The policies become the average of those of the better members; nothing where they are lost."""
        shares = parents_shares(returns, self.config.parents)
        kept = np.flatnonzero(shares)
        counts = [dict.fromkeys(self.trains, float(shares[i])) for i in kept]
        try:
            average = self.runtime.get(self.runtime.reduce([weights[i] for i in kept], counts))
        except WorkerLost:
            return {}
        finite = returns[np.isfinite(returns)]
        own = {"return_mean": float(finite.mean()), "return_max": float(finite.max())} if len(finite) else {}
        for name, graph in self._graphs.items():
            graph.set_weights(average[name])
            graph.on_progress(self._ledger.note(name, len(returns), own, skipped=False))
        return {name: {"members": float(len(returns)), **own} for name in self.trains}

    def get_weights(self) -> dict[str, Weights]:
        return {name: graph.get_weights() for name, graph in self._graphs.items()}

    def graph_states(self) -> dict[str, dict[str, Any]]:
        return {name: graph.get_state() for name, graph in self._graphs.items()}

    def get_state(self) -> dict[str, Any]:
        return {"graphs": self.graph_states(), "ledger": self._ledger.get_state(), "generation": self._generation}

    def set_state(self, state: dict[str, Any]) -> None:
        for name, own in state["graphs"].items():
            self._graphs[name].set_state(own)
        self._ledger.set_state(state["ledger"])
        self._generation = int(state["generation"])


def parents_shares(returns: NDArray[np.float64], part: float) -> NDArray[np.float64]:
    """What each member contributes: 0 for the worse ones, and to 1 in all for the better ``part`` of them.

    Shares rise with the rank in equal steps; members with equal returns have the mean of theirs.
    """
    count = len(returns)
    by_rank = np.maximum(np.arange(1.0, count + 1.0) - np.ceil(count * (1.0 - part)), 0.0)
    by_rank[-1] = max(by_rank[-1], 1.0)
    _, inverse, ties = np.unique(returns, return_inverse=True, return_counts=True)
    ends = np.cumsum(ties)
    sums = np.cumsum(by_rank)[ends - 1]
    each = np.diff(sums, prepend=0.0) / ties
    return np.asarray(each[inverse] / by_rank.sum(), np.float64)
