"""Replay: what was sampled is stored, and learnt from again and again.

Mnih et al. 2015, algorithm 1; with priorities Schaul et al. 2016, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, PositiveFloat

from rlcore.batch import BATCH_INDEXES, MultiAgentBatch, SampleBatch
from rlcore.errors import OptimizerError
from rlcore.evaluator_set import EvaluatorSet
from rlcore.learner import Learner
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import LearnOutput, Weights
from rlcore.policy_optimizer import MeanStats, OptimizerConfig, PolicyOptimizer, StepResult
from rlcore.runtime.base import Runtime
from rlcore.schedule import NonNegativeSchedule, value_at
from rlcore_replay.buffer import ReplayBuffer
from rlcore_replay.pace import LearningPace
from rlcore_replay.priorities import EPSILON


class PrioritizedConfig(OptimizerConfig):
    """Proportional priorities: a transition is drawn with probability in proportion to (|TD error| + epsilon)^alpha."""

    alpha: float = Field(0.6, ge=0.0)
    #: How far the weights of the loss make up for it: 1 is wholly. A number, or points by environment steps.
    beta: NonNegativeSchedule = 0.4
    epsilon: PositiveFloat = EPSILON


class ReplayConfig(OptimizerConfig):
    """Settings of ``replay``. Each policy has a buffer of its own."""

    #: Transitions that a policy's buffer holds.
    capacity: int = Field(50_000, ge=1)
    #: Environment steps that are sampled before anything is learnt.
    learning_starts: int = Field(1000, ge=0)
    #: Rows of one update.
    minibatch_size: int = Field(32, ge=1)
    #: Rows learnt from for each environment step sampled: with 32 a minibatch, 8 is an update every four steps.
    learnt_per_sampled: float = Field(8.0, gt=0.0)
    #: Null draws uniformly.
    prioritized: PrioritizedConfig | None = None
    #: Rounds of samples, each with the updates that are then due, in one step.
    rounds: int = Field(1, ge=1)
    #: Where the learner lives; several devices share each minibatch.
    devices: tuple[str, ...] = ("cpu",)
    seed: int = 0


class Replay(PolicyOptimizer):
    """Stores every sample, and keeps the rows learnt from in a fixed ratio to the environment steps sampled."""

    Config = ReplayConfig
    config: ReplayConfig
    conformance: ClassVar[Mapping[str, Any]] = {
        "config": {"learning_starts": 16, "minibatch_size": 16, "learnt_per_sampled": 2.0, "prioritized": {}},
        "graph": "rlcore.testing.linear_q:LinearQ",
        "uses_every_row": False,
    }

    def __init__(
        self,
        local: PolicyEvaluator,
        evaluators: EvaluatorSet,
        runtime: Runtime,
        config: ReplayConfig,
        trains: tuple[str, ...],
    ) -> None:
        super().__init__(local, evaluators, runtime, config, trains)
        self.learner = Learner({policy_id: local.graph_spec(policy_id) for policy_id in trains}, config.devices)
        self.buffers = {policy_id: self._buffer() for policy_id in trains}
        self.pace = LearningPace(
            trains, config.learning_starts, config.learnt_per_sampled, config.minibatch_size
        )
        self._rng = np.random.default_rng(config.seed)

    def _buffer(self) -> ReplayBuffer:
        prioritized = self.config.prioritized
        if prioritized is None:
            return ReplayBuffer(self.config.capacity)
        return ReplayBuffer(self.config.capacity, alpha=prioritized.alpha, epsilon=prioritized.epsilon)

    def step(self) -> StepResult:
        now = self.runtime.now
        stats, env_steps, learnt_rows, updates = MeanStats(), 0, 0, 0
        skipped = self.learner.skipped_updates
        timers = {"sample_s": 0.0, "learn_s": 0.0, "sync_s": 0.0}
        for _ in range(self.config.rounds):
            started = now()
            batch = self.evaluators.fetch(self.reader.round(), self.trains)
            self._store(batch)
            sampled = now()
            self.learner.advance(batch.env_steps)
            before = updates
            for policy_id, buffer in self.buffers.items():
                while len(buffer) and self.pace.is_due(policy_id):
                    output = self._update(policy_id, buffer)
                    stats.add(policy_id, output.stats)
                    updates, learnt_rows = updates + 1, learnt_rows + (output.rows or 0)
            learnt = now()
            weights = self.learner.acting_weights() if updates > before else {}
            self.evaluators.broadcast(weights, self.learner.progress)
            timers["sample_s"] += sampled - started
            timers["learn_s"] += learnt - sampled
            timers["sync_s"] += now() - learnt
            env_steps += batch.env_steps
        skipped = self.learner.skipped_updates - skipped
        return StepResult(env_steps, learnt_rows, updates - skipped, skipped, stats=stats.mean(), timers=timers)

    def _store(self, batch: MultiAgentBatch) -> None:
        """Every policy's samples go into its buffer."""
        self.pace.sampled(batch.env_steps)
        for policy_id, own in batch.items():
            self.buffers[policy_id].add(own)

    def _update(self, policy_id: str, buffer: ReplayBuffer) -> LearnOutput:
        """One update of one policy, from one minibatch; what was drawn gets the priorities that it has now."""
        minibatch = self._draw(buffer)
        pinned = self.learner.pin(MultiAgentBatch({policy_id: minibatch}, 0))
        output = self.learner.learn(pinned)[policy_id]
        self.pace.learnt_from(policy_id, output.rows or 0)
        if self.config.prioritized is not None and not output.skipped:
            if output.td_error is None:
                raise OptimizerError(
                    f"policy '{policy_id}' gives no TD error, which optimizer.prioritized goes by; leave that out"
                )
            buffer.update_priorities(minibatch[BATCH_INDEXES], output.td_error)
        return output

    def _draw(self, buffer: ReplayBuffer) -> SampleBatch:
        prioritized, size = self.config.prioritized, self.config.minibatch_size
        if prioritized is None:
            return buffer.sample(size, self._rng)
        return buffer.sample(size, self._rng, value_at(prioritized.beta, self.pace.env_steps))

    def graph_states(self) -> dict[str, dict[str, Any]]:
        return self.learner.graph_states()

    def get_weights(self) -> dict[str, Weights]:
        return self.learner.get_weights()

    def get_state(self) -> dict[str, Any]:
        return {
            "learner": self.learner.get_state(),
            "pace": self.pace.get_state(),
            "rng": self._rng.bit_generator.state,
            "replay": {policy_id: buffer.get_state() for policy_id, buffer in self.buffers.items()},
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.learner.set_state(state["learner"])
        self.pace.set_state(state["pace"])
        self._rng.bit_generator.state = state["rng"]
        for policy_id, own in state["replay"].items():
            self.buffers[policy_id].set_state(own)
