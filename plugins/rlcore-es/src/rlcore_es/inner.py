"""InnerTraining: an optimizer at work within a task of another one, in the environments of a single evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rlcore import registry
from rlcore.config import ResolvedOptimizer
from rlcore.evaluator_messages import SampleInfo
from rlcore.evaluator_set import EvaluatorSet
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Weights
from rlcore.policy_optimizer import OptimizerConfig, PolicyOptimizer
from rlcore.runtime.inline import InlineRuntime
from rlcore.validation import validate_plain
from rlcore_es.exact_statistics import added, deltas, exact


class InnerTraining:
    """Trains the policies in ``states``, which begin as those say, by ``{policy_id: state of its graph}``.

    The optimizer does not see that it is an inner one: it has graphs, evaluators and a runtime of its own. While it is
    at work the evaluator does nothing else. All that is drawn follows from ``seed``.
    """

    def __init__(
        self,
        evaluator: PolicyEvaluator,
        states: Mapping[str, Mapping[str, Any]],
        optimizer: ResolvedOptimizer,
        seed: np.random.SeedSequence,
    ) -> None:
        specs = {name: replace(evaluator.graph_spec(name), start=state) for name, state in states.items()}
        local, runtime = evaluator.fork(specs, seed), InlineRuntime()
        self._before = evaluator.filter_statistics()
        self._evaluators = EvaluatorSet(runtime, local)
        kind, config = optimizer_of(optimizer)
        self._optimizer = kind(local, self._evaluators, runtime, config, tuple(states))

    def step(self, count: int) -> None:
        """So many steps of the optimizer."""
        for _ in range(count):
            self._optimizer.step()

    def played(self) -> SampleInfo:
        """What it has sampled since it began, as if the evaluator had: steps, episodes and what filters have seen."""
        (metrics,) = self._evaluators.metrics()
        seen = added(exact(self._before), exact(self._evaluators.filter_statistics()))
        return SampleInfo(0, self._evaluators.env_steps, {}, {}, 0, deltas(seen), metrics)

    def get_weights(self) -> dict[str, Weights]:
        """Those of the policies that it trains, as they are now."""
        return self._optimizer.get_weights()


def optimizer_of(resolved: ResolvedOptimizer) -> tuple[type[PolicyOptimizer], OptimizerConfig]:
    """An inner optimizer's class and settings. ``ConfigError`` for settings that it does not know."""
    kind = registry.load("optimizer", resolved.name)
    return kind, validate_plain(kind.Config, resolved.settings, "optimizer.inner", beside=["name"])
