"""A broadcast on Ray: one copy of the weights in shared memory, which every worker reads where it is."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.workers import Receiver

from rlcore.evaluator_set import EvaluatorSet
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Progress
from rlcore.sampling.collect import Fragment
from rlcore.testing import LinearPG

pytest.importorskip("rlcore_gym")

pytestmark = [
    pytest.mark.xdist_group("ray"),
    pytest.mark.usefixtures("local_ray"),
    pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="where memory is mapped is told by Linux"),
]

MEGABYTES = 10


@pytest.fixture
def puts(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What this process puts into the object store, as it is given to Ray."""
    from ray._private.worker import Worker

    given: list[Any] = []
    put = Worker.put_object

    def noting(worker: Any, value: Any, *others: Any, **more: Any) -> Any:
        given.append(value)
        return put(worker, value, *others, **more)

    monkeypatch.setattr(Worker, "put_object", noting)
    return given


@pytest.fixture(params=[1, 2])
def evaluators(request: pytest.FixtureRequest, ray_runtime: Any) -> Iterator[EvaluatorSet]:
    local = PolicyEvaluator(env="CartPole-v1", graph=LinearPG, collect=Fragment(5))
    builders = [functools.partial(Receiver, i) for i in range(request.param)]
    made = EvaluatorSet(ray_runtime, local, builders)  # type: ignore[arg-type]  # they take what evaluators are sent
    yield made
    made.close()


def test_weights_are_put_once_and_read_where_they_are(
    evaluators: EvaluatorSet, ray_runtime: Any, puts: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluators.local, "receive", lambda update: None)
    weights = {"default": {"w": np.arange(MEGABYTES << 18, dtype=np.float32), "b": np.ones(3, np.float32)}}
    ray_runtime.get([handle.submit("seen") for handle in evaluators.handles])
    puts.clear()
    evaluators.broadcast(weights, {"default": Progress(0, 0, 0, {})})
    seen = ray_runtime.get([handle.submit("seen") for handle in evaluators.handles])
    assert len(puts) == 1
    for places in seen:
        (place,) = places
        assert place.total == float(weights["default"]["w"].sum(dtype=np.float64))
        assert not place.owned and not place.writeable
        # Of the object store, which all processes of a machine map.
        assert place.file is not None and place.shared and "plasma" in place.file
        # Reading it costs no memory of its own.
        assert place.private_kb < 1024
