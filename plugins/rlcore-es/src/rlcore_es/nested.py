"""Evolution around another optimizer: members learn before they are judged, and pass on what they have learnt.

Liang et al. 2018 (RLlib), section 5: PPO-ES and A3C-ES, hybrids that leave PPO and A3C as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from rlcore.config import ResolvedOptimizer
from rlcore.errors import WorkerLost
from rlcore.evaluator_messages import SampleInfo
from rlcore.evaluator_set import EvaluatorSet
from rlcore.ledger import Ledger
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Weights
from rlcore.policy_optimizer import OptimizerConfig, PolicyOptimizer, StepResult
from rlcore.runtime.base import Runtime
from rlcore.schedule import NonNegativeSchedule, value_at
from rlcore.task_pool import Done, TaskPool
from rlcore_es.inner import InnerTraining, optimizer_of
from rlcore_es.layout import Layout, moved
from rlcore_es.shares import parents_shares

#: ``{policy_id: state of its graph}``
States = dict[str, dict[str, Any]]


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
class Member:
    """One of a generation: the policies with noise on their weights, which learn with the inner optimizer."""

    config: NestedESConfig
    layouts: Mapping[str, Layout]
    noise_std: float
    generation: int
    number: int

    def perform(self, evaluator: PolicyEvaluator, states: States) -> tuple[SampleInfo, dict[str, Weights]]:
        """What it has played in learning, and the weights that it has come to."""
        seed = np.random.SeedSequence([self.config.seed, self.generation, self.number])
        training = InnerTraining(evaluator, self.perturbed(states), self.config.inner, seed)
        training.step(self.config.inner_steps)
        return training.played(), training.get_weights()

    def perturbed(self, states: States) -> States:
        """Those of a member: of the two of a pair, plus and minus the same noise."""
        pair, is_second = divmod(self.number, 2)
        is_alone = self.number == self.config.members - 1 and not is_second
        factor = 0.0 if is_alone else -self.noise_std if is_second else self.noise_std
        found = {}
        for place, (name, layout) in enumerate(sorted(self.layouts.items())):
            rng = np.random.default_rng([self.config.seed, self.generation, pair, place])
            centre = layout.flatten(states[name]["weights"])
            moved_to = layout.weights(centre + factor * rng.standard_normal(layout.size))
            found[name] = {**states[name], "weights": {**states[name]["weights"], **moved_to}}
        return found


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
        optimizer_of(config.inner)
        self._graphs = {policy_id: local.graph_spec(policy_id).build() for policy_id in trains}
        graphs = self._graphs.items()
        self._layouts = {name: Layout.of(graph.get_weights(), moved(name, graph)) for name, graph in graphs}
        self._tasks = TaskPool(runtime, evaluators.crew)
        self._ledger = Ledger(trains)
        self._generation = 0

    def step(self) -> StepResult:
        now = self.runtime.now
        started = now()
        learnt = self._tasks.do(self._members(), self.runtime.put(self.graph_states()), returns=2)
        sampled = now()
        returns = np.array([mean_return(one.value) for one in learnt])
        stats = stats_of(returns)
        average = self._average(learnt, parents_shares(returns, self.config.parents))
        # From here on nobody is waited for before the step is over: one that is interrupted has changed nothing.
        env_steps = self._count(learnt)
        self._become(average, stats)
        self._generation += 1
        ended = now()
        self.evaluators.broadcast(
            {name: graph.get_weights(graph.acting) for name, graph in self._graphs.items()}, self._ledger.progress
        )
        return StepResult(
            env_steps,
            learnt_rows=env_steps,
            updates=len(average),
            skipped_updates=len(self.trains) - len(average),
            stats={name: stats for name in average},
            timers={"sample_s": sampled - started, "learn_s": ended - sampled, "sync_s": now() - ended},
        )

    def _members(self) -> list[Member]:
        """Those of this generation, by their numbers."""
        noise_std = value_at(self.config.noise_std, self._ledger.progress[self.trains[0]].env_steps)
        numbers = range(self.config.members)
        return [Member(self.config, self._layouts, noise_std, self._generation, number) for number in numbers]

    def _count(self, learnt: list[Done]) -> int:
        """Counts what members have played; gives how many environment steps that was."""
        for one in learnt:
            self.evaluators.count(one.place, one.value)
        env_steps = sum(int(one.value.env_steps) for one in learnt)
        self._ledger.advance(env_steps)
        return env_steps

    def _average(self, learnt: list[Done], shares: NDArray[np.float64]) -> dict[str, Weights]:
        """By policy, the sum of the members' weights, each times its share; nothing where one that counts is lost."""
        kept = np.flatnonzero(shares)
        weights = [learnt[i].others[0] for i in kept]
        counts = [dict.fromkeys(self.trains, float(shares[i])) for i in kept]
        try:
            average: dict[str, Weights] = self.evaluators.result(self.runtime.reduce(weights, counts))
        except WorkerLost:
            return {}
        return average

    def _become(self, average: dict[str, Weights], stats: dict[str, float]) -> None:
        """The policies take over the weights; schedules hear of the update."""
        for name, weights in average.items():
            self._graphs[name].set_weights(weights)
            self._graphs[name].on_progress(self._ledger.note(name, self.config.members, stats, skipped=False))

    def get_weights(self) -> dict[str, Weights]:
        return {name: graph.get_weights() for name, graph in self._graphs.items()}

    def graph_states(self) -> States:
        return {name: graph.get_state() for name, graph in self._graphs.items()}

    def get_state(self) -> dict[str, Any]:
        return {"graphs": self.graph_states(), "ledger": self._ledger.get_state(), "generation": self._generation}

    def set_state(self, state: dict[str, Any]) -> None:
        for name, own in state["graphs"].items():
            self._graphs[name].set_state(own)
        self._ledger.set_state(state["ledger"])
        self._generation = int(state["generation"])


def mean_return(played: SampleInfo) -> float:
    """Of the episodes that have ended; minus infinity where none has."""
    returns = [episode.episode_return for episode in played.metrics.episodes]
    return float(np.mean(returns)) if returns else -np.inf


def stats_of(returns: NDArray[np.float64]) -> dict[str, float]:
    """What a row says of a generation."""
    finite = returns[np.isfinite(returns)]
    own = {"return_mean": float(finite.mean()), "return_max": float(finite.max())} if len(finite) else {}
    return {"members": float(len(returns)), **own}
