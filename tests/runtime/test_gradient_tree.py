"""Gradients are averaged by a tree of workers, to what one of them alone would make of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.runs import Uneven, two_agents
from support.workers import Counter

from rlcore.runtime import reduction
from rlcore.runtime.base import Handle, Runtime
from rlcore.runtime.inline import InlineRuntime
from rlcore.runtime.reduction import average
from rlcore.sample_reader import Round, SampleReader
from rlcore.trainer import Trainer

RANKS = (1, 2, 3, 5, 8)
Trees = list[dict[str, dict[str, np.ndarray]]]  # type: ignore[type-arg]
Counts = list[dict[str, int]]


def gradients(ranks: int) -> tuple[Trees, Counts]:
    """Of two policies. The second rank has no data at all, every third one none of policy "b"; the last has zero."""
    rng = np.random.default_rng(ranks)
    trees: Trees = []
    counts: Counts = []
    for rank in range(ranks):
        policies = {1: ""}.get(rank, "a" if rank % 3 == 2 else "ab")
        trees.append({name: {"w": rng.normal(size=(7, 5)).astype(np.float32)} for name in policies})
        counts.append({name: int(rng.integers(1, 500)) for name in policies})
    counts[-1] |= dict.fromkeys(trees[-1], 0) if ranks > 3 else {}
    return trees, counts


def given(runtime: Runtime, workers: Sequence[Handle], ranks: int) -> Any:
    trees, counts = gradients(ranks)
    calls = [worker.submit("several", *pair, returns=2) for worker, *pair in zip(workers, trees, counts, strict=False)]
    return runtime.get(runtime.reduce([tree for tree, _ in calls], [count for _, count in calls]))


@pytest.fixture(scope="module")
def ranks(runtime: Runtime) -> list[Handle]:
    return [runtime.spawn(Counter) for _ in range(max(RANKS))]


@pytest.mark.parametrize("count", RANKS)
def test_a_tree_of_workers_makes_the_average_that_one_would(count: int, runtime: Runtime, ranks: list[Handle]) -> None:
    mean = given(runtime, ranks, count)
    flat = average(*gradients(count))
    alike = given(InlineRuntime(), [InlineRuntime().spawn(Counter) for _ in range(count)], count)
    assert mean.keys() == flat.keys() == alike.keys() == {"a", "b"}
    for name in mean:
        np.testing.assert_allclose(mean[name]["w"], flat[name]["w"], rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(mean[name]["w"], alike[name]["w"])
        assert mean[name]["w"].dtype == np.float32


def test_nobody_has_data(runtime: Runtime, ranks: list[Handle]) -> None:
    calls = [worker.submit("several", {}, {}, returns=2) for worker in ranks]
    assert runtime.get(runtime.reduce([tree for tree, _ in calls], [count for _, count in calls])) == {}


@pytest.mark.xdist_group("ray")
@pytest.mark.parametrize(("count", "who"), [(1, [0]), (3, [0]), (5, [0, 0]), (8, [0, 4, 0])])
def test_on_ray_the_inner_nodes_are_the_workers_that_have_the_gradients(
    count: int, who: list[int], ray_runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rlcore.runtime.ray.handles import RayHandle

    workers = [ray_runtime.spawn(Counter) for _ in range(count)]
    asked: list[int] = []
    own = RayHandle.average

    def noting(self: RayHandle, parts: Any) -> Any:
        asked.append(workers.index(self))
        assert len(parts) <= reduction.FAN_IN
        return own(self, parts)

    monkeypatch.setattr(RayHandle, "average", noting)
    assert set(given(ray_runtime, workers, count)) == {"a", "b"}
    assert asked == who


def trained(patch: pytest.MonkeyPatch, evaluators: int, runtime: str) -> tuple[Any, set[tuple[str, ...]]]:
    """The weights after four steps, and the policies that samples of an evaluator had rows of."""
    seen: set[tuple[str, ...]] = set()
    take = SampleReader.round

    def noting(self: SampleReader) -> Round:
        samples = take(self)
        seen.update(tuple(sorted(name for name, rows in sample.info.rows.items() if rows)) for sample in samples)
        return samples

    patch.setattr(SampleReader, "round", noting)
    config = two_agents({"evaluators": {"count": evaluators, "envs": 1, "fragment": 4}, "runtime": runtime})
    optimizer = {"name": "allreduce", "epochs": 2, "minibatch_size": 3}
    config |= {"env": Uneven, "policies": {name: {"optimizer": optimizer} for name in ("left", "right")}, "seed": 1}
    with Trainer(config) as trainer:
        for _ in range(4):
            row = trainer.step()
        assert row["updates"] > 0 and row["dropped_rows"] == 0
        return trainer.weights(), seen


@pytest.mark.parametrize("evaluators", RANKS)
def test_allreduce_with_replicas_that_lack_a_policy_learns_what_it_would_with_one_actor(
    evaluators: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rlcore_sync")
    weights, seen = trained(monkeypatch, evaluators, "inline")
    assert evaluators == 1 or {("left",), ("left", "right")} <= seen
    monkeypatch.setattr(reduction, "FAN_IN", 1000)
    flat, _ = trained(monkeypatch, evaluators, "inline")
    for policy_id, own in weights.items():
        for name, array in own.items():
            np.testing.assert_allclose(array, flat[policy_id][name], rtol=1e-6, atol=1e-6)


@pytest.mark.xdist_group("ray")
@pytest.mark.usefixtures("local_ray")
def test_allreduce_with_a_replica_that_lacks_a_policy_is_on_ray_what_it_is_inline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("rlcore_sync")
    weights, seen = trained(monkeypatch, 2, "ray")
    assert {("left",), ("left", "right")} <= seen
    inline, _ = trained(monkeypatch, 2, "inline")
    for policy_id, own in weights.items():
        for name, array in own.items():
            np.testing.assert_array_equal(array, inline[policy_id][name])
