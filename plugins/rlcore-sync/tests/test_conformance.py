"""The package and its optimizers, held to the contracts of their kinds: on every runtime that is installed.

With other settings on inline alone, which the tests of the runtimes compare the others with.
"""

from __future__ import annotations

import pytest

from rlcore.testing.suites import OptimizerTests, PluginTests

#: One process of pytest has the tests that start a Ray.
RAY = pytest.mark.xdist_group("ray")


class TestPackage(PluginTests):
    distribution = "rlcore-sync"


@RAY
class TestAllReduce(OptimizerTests):
    optimizer = "allreduce"


class TestAllReduceInEpochs(OptimizerTests):
    optimizer = "allreduce"
    config = {"epochs": 3, "minibatch_size": 20}
    runtimes = ("inline",)


@RAY
class TestMultiGPU(OptimizerTests):
    optimizer = "multi_gpu"


class TestMultiGPUInEpochs(OptimizerTests):
    optimizer = "multi_gpu"
    config = {"epochs": 3, "minibatch_size": 20}
    runtimes = ("inline",)


class TestMultiGPUWithLargeBatches(OptimizerTests):
    optimizer = "multi_gpu"
    config = {"train_batch_size": 200}
    runtimes = ("inline",)
