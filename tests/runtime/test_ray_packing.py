"""Batches that travel packed are the batches that travel as they are, in fewer bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from support.runs import linear, without_times
from support.workers import Counter

from rlcore.batch import SampleBatch
from rlcore.runtime.base import Runtime
from rlcore.trainer import Trainer

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.usefixtures("local_ray")]


@pytest.fixture(scope="module")
def packing(local_ray: str) -> Iterator[Runtime]:
    from rlcore.runtime.ray import RayConfig, RayRuntime

    runtime = RayRuntime(RayConfig(compress_batches=True))
    yield runtime
    runtime.close()


def test_batches_cross_packed_and_arrive_as_they_were(packing: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    from ray._private.serialization import SerializationContext

    frames = np.zeros((68, 84, 84), np.uint8)
    frames[np.arange(68), np.arange(68)] = 7
    obs = np.stack([frames[i : i + 4] for i in range(65)])
    batch = SampleBatch({"obs": obs[:-1]}, {"start": np.array([0]), "length": np.array([64]), "last_obs": obs[-1:]})
    sizes: list[int] = []
    own = SerializationContext.deserialize_objects

    def counting(self: object, serialized: list[tuple[bytes, ...]], *others: object, **more: object) -> object:
        sizes.extend(len(data) for data, *_ in serialized)
        return own(self, serialized, *others, **more)

    monkeypatch.setattr(SerializationContext, "deserialize_objects", counting)
    for runtime in (packing, packing.child()):
        worker = runtime.spawn(Counter)
        for refs in ([worker.submit("echo", {"a": batch})], worker.submit("several", {"a": batch}, 1, returns=2)):
            sizes.clear()
            got = runtime.get(list(refs))[0]["a"]
            assert max(sizes) < batch["obs"].nbytes / 20
            np.testing.assert_array_equal(got["obs"], batch["obs"])
            np.testing.assert_array_equal(got.last_obs, batch.last_obs)
            assert not got["obs"].flags.writeable
        runtime.kill(worker)


@pytest.mark.parametrize("optimizer", ["multi_gpu", "allreduce"])
def test_a_run_whose_batches_are_packed_is_the_run_whose_are_not(optimizer: str) -> None:
    pytest.importorskip("rlcore_sync")
    rows = []
    for runtime in ("inline", {"name": "ray", "compress_batches": True}):
        config = linear({"evaluators.count": 1, "filter": "mean_std", "optimizer.name": optimizer})
        with Trainer({**config, "runtime": runtime}) as trainer:
            trainer.step()
            rows.append((without_times(trainer.step()), trainer.weights_sha256()))
    assert rows[0] == rows[1]
