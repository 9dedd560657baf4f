"""Replay: what was sampled is stored, and learnt from again and again.

Mnih et al. 2015, algorithm 1; with priorities Schaul et al. 2016, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from rlcore.batch import ADVANTAGES, BATCH_INDEXES, MultiAgentBatch, SampleBatch
from rlcore.errors import OptimizerError
from rlcore.evaluator_set import EvaluatorSet
from rlcore.graph_spec import announce
from rlcore.learner import Learner
from rlcore.learnt import Learnt
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import LearnOutput, Remark, Weights
from rlcore.policy_optimizer import PolicyOptimizer, StepResult
from rlcore.runtime.base import Runtime
from rlcore.schedule import value_at
from rlcore_replay.buffer import Buffer
from rlcore_replay.config import ReplayConfig
from rlcore_replay.memory import Memory, build_buffers
from rlcore_replay.pace import LearningPace
from rlcore_replay.sequences import SequenceBuffer

#: No more minibatches are drawn together than fit into a processor's own cache.
BYTES_AT_ONCE = 1 << 18


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
        specs = {policy_id: local.graph_spec(policy_id) for policy_id in trains}
        self.learner = Learner(specs, config.devices)
        self.pace = LearningPace(trains, config.learning_starts, config.learnt_per_sampled, config.minibatch_size)
        buffers = build_buffers(specs, self.learner.graphs, config, local.collect)
        self.memory = Memory(buffers, self.pace.begin_again)
        self._at_once: dict[str, int] = {}
        self._rng = np.random.default_rng(config.seed)

    def step(self) -> StepResult:
        now = self.runtime.now
        found, env_steps = Learnt(), 0
        timers = {"sample_s": 0.0, "learn_s": 0.0, "sync_s": 0.0}
        for _ in range(self.config.rounds):
            started = now()
            batch = self.evaluators.fetch(self.reader.round(), self.trains)
            announce(self._remarks_on_first(batch))
            self.memory.add(batch)
            sampled = now()
            self.learner.advance(batch.env_steps)
            self.pace.sampled(batch.env_steps)
            before = found.updates
            for policy_id, buffer in self.memory.buffers.items():
                for output in self._updates_due(policy_id, buffer):
                    found.note(policy_id, output.stats, output.rows or 0, output.skipped)
            learnt = now()
            weights = self.learner.acting_weights() if found.updates > before else {}
            self.evaluators.broadcast(weights, self.learner.progress)
            timers["sample_s"] += sampled - started
            timers["learn_s"] += learnt - sampled
            timers["sync_s"] += now() - learnt
            env_steps += batch.env_steps
        return found.result(env_steps, timers)

    def _remarks_on_first(self, batch: MultiAgentBatch) -> Iterator[Remark]:
        """Advantages are worked out once, for the policy that sampled, and say nothing of what it has become since."""
        for policy_id, own in batch.items():
            if ADVANTAGES in own.rows and not len(self.memory.buffers[policy_id]):
                graph = type(self.learner.graphs[policy_id]).__name__
                text = (
                    f"policy '{policy_id}' ({graph}) notes advantages with its samples, which hold for what it was "
                    "then, and optimizer replay learns from old ones: use an off-policy graph, or another optimizer"
                )
                yield Remark(text, warns=True)

    def _updates_due(self, policy_id: str, buffer: Buffer) -> Iterator[LearnOutput]:
        """The updates of one policy that are due, one by one, each from a minibatch of its own.

        What does not depend on the updates before is done for several at once.
        """
        while len(buffer) and (due := self.pace.due(policy_id)):
            minibatches = min(due, self._most_at_once(policy_id, buffer))
            drawn = self._draw(buffer, minibatches)
            for output in self.learner.learn_minibatches(policy_id, drawn, minibatches):
                self.pace.learnt_from(policy_id, output.rows or 0)
                if self.config.prioritized is not None and not output.skipped:
                    self._update_priorities(policy_id, buffer, drawn, output)
                yield output

    def _draw(self, buffer: Buffer, minibatches: int) -> SampleBatch:
        """So many minibatches, one behind the other, of about the rows asked for."""
        rows, prioritized = self.config.minibatch_size, self.config.prioritized
        items = max(1, rows // buffer.length) if isinstance(buffer, SequenceBuffer) else rows
        if prioritized is None:
            return buffer.sample(minibatches * items, self._rng)
        return buffer.sample(items, self._rng, value_at(prioritized.beta, self.pace.env_steps))

    def _most_at_once(self, policy_id: str, buffer: Buffer) -> int:
        """How many minibatches are drawn together at the most.

        One, where priorities change with every update, and of sequences, whose rows show when they have been drawn.
        """
        if self.config.prioritized is not None or isinstance(buffer, SequenceBuffer):
            return 1
        if policy_id not in self._at_once:
            row = buffer.take(np.zeros(1, np.int64))
            size = sum(column.nbytes for table in (row.rows, row.cuts) for column in table.values())
            self._at_once[policy_id] = max(1, BYTES_AT_ONCE // (size * self.config.minibatch_size))
        return self._at_once[policy_id]

    def _update_priorities(self, policy_id: str, buffer: Buffer, drawn: SampleBatch, output: LearnOutput) -> None:
        """What was drawn gets the priorities that it has now."""
        if output.td_error is None:
            raise OptimizerError(
                f"policy '{policy_id}' gives no TD error, which optimizer.prioritized goes by; leave that out"
            )
        buffer.update_priorities(drawn[BATCH_INDEXES], output.td_error)

    def graph_states(self) -> dict[str, dict[str, Any]]:
        return self.learner.graph_states()

    def get_weights(self) -> dict[str, Weights]:
        return self.learner.get_weights()

    @property
    def replay_memory(self) -> Memory:
        return self.memory

    def get_learning_state(self) -> dict[str, Any]:
        return {
            "learner": self.learner.get_state(),
            "pace": self.pace.get_state(),
            "rng": self._rng.bit_generator.state,
        }

    def get_state(self) -> dict[str, Any]:
        return {**self.get_learning_state(), "replay": self.memory.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        self.learner.set_state(state["learner"])
        self.pace.set_state(state["pace"])
        self._rng.bit_generator.state = state["rng"]
        self.memory.set_state(state.get("replay", {}))
