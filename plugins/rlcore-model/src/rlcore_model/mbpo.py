"""Model-based policy optimization: a policy learns from short rollouts in learnt dynamics, branched from states that
were sampled (Janner et al. 2019, algorithm 2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from rlcore.batch import MultiAgentBatch, SampleBatch
from rlcore.errors import OptimizerError
from rlcore.evaluator_set import EvaluatorSet
from rlcore.learner import Learner
from rlcore.learnt import Learnt
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import PIECE, Actor, LearnOutput, PolicyGraph, Weights
from rlcore.policy_optimizer import PolicyOptimizer, StepResult
from rlcore.runtime.base import Runtime
from rlcore.schedule import value_at
from rlcore_model.config import MBPOConfig
from rlcore_model.dynamics_learning import DynamicsTraining, TrainingHere, TrainingInParallel
from rlcore_model.dynamics_specs import dynamics_specs
from rlcore_model.imagination import imagine, mixed, with_columns_of
from rlcore_model.memories import Memories
from rlcore_replay import LearningPace, ReplayBuffer


class MBPO(PolicyOptimizer):
    """Stores every sample, has dynamics models learn from them, and policies from what these imagine of them.

    The policy's graph is any that learns from single transitions.
    """

    Config = MBPOConfig
    config: MBPOConfig
    conformance: ClassVar[Mapping[str, Any]] = {
        "config": {
            "learning_starts": 16,
            "minibatch_size": 16,
            "learnt_per_sampled": 2.0,
            "rollouts_per_sampled": 1.0,
            "real_share": 0.5,
            "dynamics": {"minibatch_size": 16, "learnt_per_sampled": 2.0, "policy": {"members": 2}},
        },
        "graph": "rlcore.testing.linear_q:LinearQ",
        "uses_every_row": False,
    }

    def __init__(
        self,
        local: PolicyEvaluator,
        evaluators: EvaluatorSet,
        runtime: Runtime,
        config: MBPOConfig,
        trains: tuple[str, ...],
    ) -> None:
        super().__init__(local, evaluators, runtime, config, trains)
        specs = {policy_id: local.graph_spec(policy_id) for policy_id in trains}
        self.learner = Learner(specs, config.devices)
        for policy_id, graph in self.learner.graphs.items():
            check_graph(policy_id, graph)
        dynamics = dynamics_specs(specs, config.dynamics, config.seed)
        #: What is imagined with: twins of the dynamics and of the policies.
        self._dynamics = {policy_id: _acting(spec.build()) for policy_id, spec in dynamics.items()}
        self._policies = {policy_id: _acting(graph) for policy_id, graph in self.learner.graphs.items()}
        self.training: DynamicsTraining = (
            TrainingInParallel(dynamics, config.devices, runtime, evaluators)
            if config.dynamics.in_parallel
            else TrainingHere(dynamics, config.devices)
        )
        self.pace = LearningPace(trains, config.learning_starts, config.learnt_per_sampled, config.minibatch_size)
        own = config.dynamics
        self.dynamics_pace = LearningPace(trains, 0, own.learnt_per_sampled, own.minibatch_size)
        self.memories = Memories(trains, config.capacity, config.imagined_capacity, self._begin_again)
        self._rng = np.random.default_rng(config.seed)

    def step(self) -> StepResult:
        now = self.runtime.now
        found, env_steps = Learnt(), 0
        timers = dict.fromkeys(("sample_s", "learn_s", "sync_s", "dynamics_s", "imagine_s"), 0.0)
        for _ in range(self.config.rounds):
            started = now()
            batch = self.evaluators.fetch(self.reader.round(), self.trains)
            self._store(batch)
            sampled = now()
            self._learn_dynamics(batch.env_steps)
            for report in self.training.ready():
                self._imagine_with(report.weights)
                found.stats.merge(report.stats)
                found.skipped += report.skipped
            known = now()
            self.learner.advance(batch.env_steps)
            if self.pace.env_steps >= self.config.learning_starts:
                self._imagine(batch.env_steps)
            imagined, before = now(), found.updates
            for policy_id in self.trains:
                for output in self._updates_due(policy_id):
                    found.note(policy_id, output.stats, output.rows or 0, output.skipped)
            learnt = now()
            weights = self.learner.acting_weights() if found.updates > before else {}
            self.evaluators.broadcast(weights, self.learner.progress)
            spent = (sampled - started, learnt - imagined, now() - learnt, known - sampled, imagined - known)
            for name, seconds in zip(timers, spent, strict=True):
                timers[name] += seconds
            env_steps += batch.env_steps
        return found.result(env_steps, timers)

    # -- the parts of a round

    def _store(self, batch: MultiAgentBatch) -> None:
        for policy_id, own in batch.items():
            self.memories.real[policy_id].add(own)
        self.pace.sampled(batch.env_steps)
        self.dynamics_pace.sampled(batch.env_steps)

    def _learn_dynamics(self, env_steps: int) -> None:
        """Has the dynamics of every policy learn as much as is due."""
        size, work = self.config.dynamics.minibatch_size, {}
        for policy_id, buffer in self.memories.real.items():
            due = self.dynamics_pace.due(policy_id) if len(buffer) else 0
            if due:
                work[policy_id] = buffer.sample(due * size, self._rng), due
                self.dynamics_pace.learnt_from(policy_id, due * size)
        if work:
            self.training.learn(env_steps, work)

    def _imagine_with(self, dynamics: Mapping[str, Weights]) -> None:
        """New dynamics reach those who imagine with them."""
        for policy_id, weights in dynamics.items():
            self._dynamics[policy_id].call("set_dynamics", weights)

    def _imagine(self, env_steps: int) -> None:
        """Rollouts of every policy as it is now, from states that were sampled."""
        own, total = self.config, self.pace.env_steps
        count = max(1, round(own.rollouts_per_sampled * env_steps))
        steps = max(1, round(value_at(own.rollout_length, total)))
        for policy_id, buffer in self.memories.real.items():
            if not len(buffer):
                continue
            graph, policy = self.learner.graphs[policy_id], self._policies[policy_id]
            if policy is not graph:
                policy.set_weights(graph.get_weights(graph.acting))
                policy.on_progress(self.learner.progress[policy_id])
            model = self._dynamics[policy_id].call("sampled_model")
            starts = buffer.sample(count, self._rng).obs
            found = graph.postprocess(imagine(model, policy, starts, steps, self._rng))
            self.memories.imagined[policy_id].add(with_columns_of(found, buffer.take(np.zeros(1, np.int64))))

    def _updates_due(self, policy_id: str) -> Iterator[LearnOutput]:
        """The updates of one policy that are due, from minibatches of both memories."""
        real, imagined = self.memories.real[policy_id], self.memories.imagined[policy_id]
        if len(real) and (due := self.pace.due(policy_id)):
            drawn = self._draw(real, imagined, due)
            for output in self.learner.learn_minibatches(policy_id, drawn, due):
                self.pace.learnt_from(policy_id, output.rows or 0)
                yield output

    def _draw(self, real: ReplayBuffer, imagined: ReplayBuffer, minibatches: int) -> SampleBatch:
        size = self.config.minibatch_size
        rows = round(self.config.real_share * size) if len(imagined) else size
        counts = ((real, rows), (imagined, size - rows))
        parts = [buffer.sample(minibatches * count, self._rng) for buffer, count in counts if count]
        pattern = parts[-1]
        return mixed([with_columns_of(part, pattern) for part in parts], size, minibatches)

    def _begin_again(self) -> None:
        self.pace.begin_again()
        self.dynamics_pace.begin_again()

    # -- weights, state

    def graph_states(self) -> dict[str, dict[str, Any]]:
        return self.learner.graph_states()

    def get_weights(self) -> dict[str, Weights]:
        return self.learner.get_weights()

    @property
    def replay_memory(self) -> Memories:
        return self.memories

    def get_learning_state(self) -> dict[str, Any]:
        return {
            "learner": self.learner.get_state(),
            "training": self.training.get_state(),
            "imagined_with": {policy_id: one.get_state() for policy_id, one in self._dynamics.items()},
            "pace": self.pace.get_state(),
            "dynamics_pace": self.dynamics_pace.get_state(),
            "rng": self._rng.bit_generator.state,
        }

    def get_state(self) -> dict[str, Any]:
        return {**self.get_learning_state(), "replay": self.memories.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        self.learner.set_state(state["learner"])
        self.training.set_state(state["training"])
        for policy_id, own in state["imagined_with"].items():
            self._dynamics[policy_id].set_state(own)
        self.pace.set_state(state["pace"])
        self.dynamics_pace.set_state(state["dynamics_pace"])
        self._rng.bit_generator.state = state["rng"]
        self.memories.set_state(state.get("replay", {}))


def check_graph(policy_id: str, graph: PolicyGraph) -> None:
    """``OptimizerError`` for a policy that cannot learn from single imagined transitions."""
    name = f"policy '{policy_id}' ({type(graph).__name__})"
    if graph.minibatch_unit is PIECE:
        raise OptimizerError(f"{name} learns from pieces: mbpo imagines single transitions, for an off-policy graph")
    if graph.lookahead:
        raise OptimizerError(f"{name} sums rewards over several steps: mbpo needs single ones; set policy.n_step to 1")


def _acting(graph: PolicyGraph) -> Actor | PolicyGraph:
    """The graph's twin in numpy, or itself where it has none."""
    return graph.actor() or graph
