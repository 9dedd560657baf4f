"""SamplesLearner: the learner in a process of its own, with batches before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlcore.batch import MultiAgentBatch, concat_agents
from rlcore.graph_spec import GraphSpec
from rlcore.learner_actor import LearnerActor, LearnerReport
from rlcore.minibatches import learn_in_epochs
from rlcore.runtime.base import Runtime
from rlcore_async.samples_config import AsyncSamplesConfig


class SamplesLearner(LearnerActor):
    """Goes over each batch as the optimizer's settings say."""

    def __init__(self, specs: Mapping[str, GraphSpec], config: AsyncSamplesConfig, runtime: Runtime) -> None:
        super().__init__(specs, config.devices, runtime)
        self._config = config
        self._rng = np.random.default_rng(config.seed)

    def learn(self, env_steps: int, *samples: MultiAgentBatch) -> LearnerReport:
        """From all ``samples`` as one batch.

        ``env_steps`` is how many have been sampled by then. ``NonFiniteError`` after too many skipped updates in a row.
        """
        self.begin(env_steps)
        own, batch = self._config, concat_agents(samples).select(tuple(self.learner.graphs))
        learnt = learn_in_epochs(
            self.learner, batch, own.epochs, own.minibatch_size, self._rng, devices=len(own.devices)
        )
        return LearnerReport(learnt, *self.end())

    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "rng": self._rng.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._rng.bit_generator.state = state["rng"]
