"""The package and the optimizers that apply gradients, held to the contracts of their kinds, on every runtime."""

from __future__ import annotations

import pytest

from rlcore.testing.suites import OptimizerTests, PluginTests


class TestPackage(PluginTests):
    distribution = "rlcore-async"


#: One process of pytest has the tests that start a Ray.
@pytest.mark.xdist_group("ray")
class TestAsyncGradients(OptimizerTests):
    optimizer = "async_gradients"


@pytest.mark.xdist_group("ray")
class TestShardedPS(OptimizerTests):
    optimizer = "sharded_ps"


class TestShardedPSWithOneShard(OptimizerTests):
    optimizer = "sharded_ps"
    config = {"rounds": 1, "shards": 1, "snapshot_every": 2}
    runtimes = ("inline", "sim")
