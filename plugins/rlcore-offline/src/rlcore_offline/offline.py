"""Offline: a policy learns from recorded episodes, and nothing is sampled."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from pydantic import Field

from rlcore.batch import SampleBatch
from rlcore.errors import OptimizerError
from rlcore.evaluator_set import EvaluatorSet
from rlcore.learner import Learner
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Weights
from rlcore.policy_optimizer import MeanStats, OptimizerConfig, PolicyOptimizer, StepResult
from rlcore.runtime.base import Runtime
from rlcore.sampling.filters import ObservationFilter
from rlcore_offline.dataset import Dataset
from rlcore_offline.filtering import filtered, observe
from rlcore_offline.lessons import lessons
from rlcore_offline.sources import load


class OfflineConfig(OptimizerConfig):
    """Settings of ``offline``."""

    #: A folder that ``rlcore record`` wrote, or ``minari:NAME``. A run needs one.
    dataset: str | None = None
    #: Rows of one update; of recurrent policies about as many, in whole episodes.
    minibatch_size: int = Field(default=256, ge=1)
    #: Updates of a step.
    updates: int = Field(default=500, ge=1)
    #: Where the policy learns; several devices share each minibatch.
    devices: tuple[str, ...] = ("cpu",)
    seed: int = 0


class Offline(PolicyOptimizer):
    """Learns from minibatches that are drawn evenly from a dataset.

    What counts as environment steps of the run are recorded ones, as often as they were learnt from: schedules go by
    them, and ``evaluation.every_env_steps``. Observation filters have the statistics of the dataset.
    """

    Config = OfflineConfig
    config: OfflineConfig

    def __init__(
        self,
        local: PolicyEvaluator,
        evaluators: EvaluatorSet,
        runtime: Runtime,
        config: OfflineConfig,
        trains: tuple[str, ...],
    ) -> None:
        super().__init__(local, evaluators, runtime, config, trains)
        if len(trains) != 1:
            raise OptimizerError(f"optimizer Offline trains one policy, not {', '.join(trains)}")
        if not evaluators.local_samples:
            raise OptimizerError("optimizer Offline samples nothing: leave out evaluators.count")
        (self._policy_id,) = trains
        self.learner = Learner({self._policy_id: local.graph_spec(self._policy_id)}, config.devices)
        self._rng = np.random.default_rng(config.seed)
        if config.dataset is None:
            raise OptimizerError("optimizer.dataset: name the dataset to learn from; rlcore record RUN writes one")
        dataset = load(config.dataset)
        self._check_spaces(dataset)
        self._lessons = lessons(self.learner, self._policy_id, self._seen(dataset.batch))

    def _check_spaces(self, dataset: Dataset) -> None:
        env = self.local.env
        if len(env.groups) != 1:
            raise OptimizerError(f"optimizer Offline is for environments of one agent, not of {', '.join(env.groups)}")
        (own,) = env.groups.values()
        for what, recorded, there in zip(("observations", "actions"), dataset.spaces, own, strict=True):
            if recorded != there:
                raise OptimizerError(
                    f"dataset {self.config.dataset} has {what} of {recorded}, environment {env.name} has {there}"
                )

    def _seen(self, batch: SampleBatch) -> SampleBatch:
        """The batch as the policy sees it, by filters that know all of it."""
        own = self.local.filters[self._policy_id].items()
        filters = {leaf: copy.deepcopy(one) for leaf, one in own if isinstance(one, ObservationFilter)}
        observe(filters, batch)
        self.evaluators.set_filters({self._policy_id: {leaf: one.get_statistics() for leaf, one in filters.items()}})
        return filtered(filters, batch)

    # -- the algorithm

    def step(self) -> StepResult:
        """So many updates, and the policy as it then is goes to where it is evaluated."""
        now = self.runtime.now
        started, skipped = now(), self.learner.skipped_updates
        stats, rows, updates = MeanStats(), 0, 0
        for output in self._lessons.learn(self.config.updates, self.config.minibatch_size, self._rng):
            stats.add(self._policy_id, output.stats, output.rows or 0)
            rows, updates = rows + (output.rows or 0), updates + 1
            self.learner.advance(output.rows or 0)
        learnt = now()
        self.evaluators.broadcast(self.learner.acting_weights(), self.learner.progress)
        skipped = self.learner.skipped_updates - skipped
        timers = {"sample_s": 0.0, "learn_s": learnt - started, "sync_s": now() - learnt}
        return StepResult(rows, rows, updates - skipped, skipped, stats=stats.mean(), timers=timers)

    # -- state

    def graph_states(self) -> dict[str, dict[str, Any]]:
        return self.learner.graph_states()

    def get_weights(self) -> dict[str, Weights]:
        return self.learner.get_weights()

    def get_state(self) -> dict[str, Any]:
        return {"learner": self.learner.get_state(), "rng": self._rng.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> None:
        self.learner.set_state(state["learner"])
        self._rng.bit_generator.state = state["rng"]
