"""What evaluators make of their samples for optimizers that apply gradients as they come."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rlcore.batch import MultiAgentBatch
from rlcore.optim import clip_factor, global_norm
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Weights
from rlcore.recent_samples import RecentSample
from rlcore.sample_products import SampleProduct
from rlcore_async.shard_layout import cuts, flattened

#: Gradients of a larger norm are not applied: their squares do not add up in float32.
LARGEST_NORM = math.sqrt(float(np.finfo(np.float32).max))


class GradientNote(NamedTuple):
    """What is said of one policy's gradients: of how many rows they are, statistics, whether they are of no use, and
    which version of the weights they are of.

    They are of no use where one is NaN, infinite or too large; there are no statistics then.
    """

    rows: int
    stats: dict[str, float]
    skipped: bool
    version: int


@dataclass(frozen=True)
class Gradients(SampleProduct):
    """``({policy_id: GradientNote}, {policy_id: gradients})`` of one sample, the gradients of those that are of use."""

    policies: tuple[str, ...]

    @property
    def results(self) -> int:
        return 1

    def make(self, evaluator: PolicyEvaluator, sample: MultiAgentBatch) -> tuple[Any, ...]:
        recent, notes, gradients = RecentSample(sample), dict[str, GradientNote](), dict[str, Weights]()
        for policy_id in sample.select(self.policies):
            graph = evaluator.drawing_graph(policy_id, evaluator.samples)
            output = graph.gradients(recent.pinned(policy_id, graph))
            usable = global_norm(output.gradients) < LARGEST_NORM
            stats, version = output.stats if usable else {}, evaluator.version(policy_id)
            notes[policy_id] = GradientNote(output.count, stats, not usable, version)
            if usable:
                gradients[policy_id] = output.gradients
        return notes, gradients


@dataclass(frozen=True)
class GradientSlices(Gradients):
    """The same notes, and for each of ``shards`` ``{policy_id: slice}`` of the flattened gradients.

    What clips gradients by their norm has to know all of them: that is done here.
    """

    shards: int = 1

    @property
    def results(self) -> int:
        return self.shards

    def make(self, evaluator: PolicyEvaluator, sample: MultiAgentBatch) -> tuple[Any, ...]:
        notes, gradients = super().make(evaluator, sample)
        flat = {}
        for policy_id, own in gradients.items():
            flat[policy_id] = flattened(own)
            bound = evaluator.graph(policy_id).update_rule().max_grad_norm
            if bound is not None:
                flat[policy_id] *= flat[policy_id].dtype.type(clip_factor(global_norm(own), bound))
        slices = {policy_id: cuts(len(own), self.shards) for policy_id, own in flat.items()}
        return notes, *({name: own[slices[name][i]] for name, own in flat.items()} for i in range(self.shards))
