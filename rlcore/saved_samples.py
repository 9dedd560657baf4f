"""Samples that wait to be learnt from, as trees of a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rlcore.batch import MultiAgentBatch, SampleBatch
from rlcore.evaluator_messages import Metrics, SampleInfo
from rlcore.evaluator_set import EvaluatorSet
from rlcore.runtime.base import Runtime
from rlcore.sample_stream import Sample


def samples_to_tree(samples: Iterable[Sample], runtime: Runtime) -> dict[str, Any]:
    """``samples_from_tree`` gives them again. What they hold is fetched into the driver.

    What episodes and filters have had of them is not in it: that has been counted when they came.
    """
    return {str(i): _to_tree(sample, runtime.get(sample.batch)) for i, sample in enumerate(samples)}


def samples_from_tree(tree: Mapping[str, Any], runtime: Runtime, evaluators: EvaluatorSet) -> list[Sample]:
    """The samples of ``samples_to_tree``, in their order, as if the evaluators of now had made them."""
    return [_from_tree(tree[str(i)], runtime, evaluators) for i in range(len(tree))]


def _to_tree(sample: Sample, batch: MultiAgentBatch) -> dict[str, Any]:
    info = sample.info
    agents = (batch.agents or {}).items()
    return {
        "index": sample.index,
        "number": info.number,
        "env_steps": info.env_steps,
        "version": info.version,
        "rows": dict(info.rows),
        "pieces": dict(info.pieces),
        "policies": {policy_id: _columns(own) for policy_id, own in batch.items()},
        "by_agent": batch.agents is not None,
        "agents": {
            str(i): {"agent": agent, "policy": policy_id, **_columns(own)}
            for i, (agent, (policy_id, own)) in enumerate(agents)
        },
    }


def _columns(batch: SampleBatch) -> dict[str, Any]:
    return {"columns": {"rows": dict(batch.rows), "cuts": dict(batch.cuts)}}


def _batch(tree: Mapping[str, Any]) -> SampleBatch:
    return SampleBatch(tree["columns"]["rows"], tree["columns"]["cuts"])


def _from_tree(tree: Mapping[str, Any], runtime: Runtime, evaluators: EvaluatorSet) -> Sample:
    agents = {own["agent"]: (own["policy"], _batch(own)) for own in tree["agents"].values()}
    policies = {policy_id: _batch(own) for policy_id, own in tree["policies"].items()}
    env_steps, index = int(tree["env_steps"]), int(tree["index"])
    batch = MultiAgentBatch(policies, env_steps, agents if tree["by_agent"] else None)
    rows, pieces = ({name: int(n) for name, n in tree[kind].items()} for kind in ("rows", "pieces"))
    info = SampleInfo(int(tree["number"]), env_steps, rows, pieces, int(tree["version"]), {}, Metrics())
    handle = evaluators.crew.members[index % evaluators.size].handle
    return Sample(handle, info, runtime.put(batch), index)
