"""Local multi-device optimization: samples are pinned once on the learner's devices and gone over several times.

Liang et al. 2018 (RLlib), figure 4(b); the loop of PPO (Schulman et al. 2017, algorithm 1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field

from rlcore.batch import MultiAgentBatch, concat_agents
from rlcore.evaluator_set import EvaluatorSet
from rlcore.learner import Learner
from rlcore.minibatches import learn_in_epochs
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Weights
from rlcore.policy_optimizer import OptimizerConfig, PolicyOptimizer, StepResult
from rlcore.runtime.base import Runtime


class MultiGPUConfig(OptimizerConfig):
    """Settings of ``multi_gpu``. Sizes are numbers of rows."""

    #: Passes over each batch.
    epochs: int = Field(1, ge=1)
    #: Of one update; 0 is the whole batch. Policies that learn from pieces take whole ones, about as many rows.
    minibatch_size: int = Field(0, ge=0)
    #: Of one batch at the least: rounds are sampled until there are as many. 0 is one round.
    train_batch_size: int = Field(0, ge=0)
    #: Where the learner lives; each of several devices holds its share of the samples, and of every minibatch.
    devices: tuple[str, ...] = ("cpu",)
    seed: int = 0


class MultiGPU(PolicyOptimizer):
    """Collects samples in this process, learns here on one or more devices, broadcasts the weights."""

    Config = MultiGPUConfig
    config: MultiGPUConfig

    def __init__(
        self,
        local: PolicyEvaluator,
        evaluators: EvaluatorSet,
        runtime: Runtime,
        config: MultiGPUConfig,
        trains: tuple[str, ...],
    ) -> None:
        super().__init__(local, evaluators, runtime, config, trains)
        self.learner = Learner({policy_id: local.graph_spec(policy_id) for policy_id in trains}, config.devices)
        self._rng = np.random.default_rng(config.seed)

    def step(self) -> StepResult:
        now = self.runtime.now
        started = now()
        batch = self._collect()
        sampled = now()
        self.learner.advance(batch.env_steps)
        own = self.config
        found = learn_in_epochs(self.learner, batch, own.epochs, own.minibatch_size, self._rng, len(own.devices))
        learnt = now()
        self.evaluators.broadcast(self.learner.acting_weights(), self.learner.progress)
        timers = {"sample_s": sampled - started, "learn_s": learnt - sampled, "sync_s": now() - learnt}
        return found.result(batch.env_steps, timers)

    def _collect(self) -> MultiAgentBatch:
        rounds = [self.evaluators.fetch(self.reader.round(), self.trains)]
        while sum(len(own) for one in rounds for own in one.values()) < self.config.train_batch_size:
            rounds.append(self.evaluators.fetch(self.reader.round(), self.trains))
        return concat_agents(rounds)

    def graph_states(self) -> dict[str, dict[str, Any]]:
        return self.learner.graph_states()

    def get_weights(self) -> dict[str, Weights]:
        return self.learner.get_weights()

    def get_state(self) -> dict[str, Any]:
        return {"learner": self.learner.get_state(), "rng": self._rng.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> None:
        self.learner.set_state(state["learner"])
        self._rng.bit_generator.state = state["rng"]
