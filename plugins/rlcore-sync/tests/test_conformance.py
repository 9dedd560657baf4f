"""The package and its optimizers, held to the contracts of their kinds on every runtime that is installed."""

from __future__ import annotations

from rlcore.testing.suites import OptimizerTests, PluginTests


class TestPackage(PluginTests):
    distribution = "rlcore-sync"


class TestAllReduce(OptimizerTests):
    optimizer = "allreduce"


class TestAllReduceInEpochs(OptimizerTests):
    optimizer = "allreduce"
    config = {"epochs": 3, "minibatch_size": 20}


class TestMultiGPU(OptimizerTests):
    optimizer = "multi_gpu"


class TestMultiGPUInEpochs(OptimizerTests):
    optimizer = "multi_gpu"
    config = {"epochs": 3, "minibatch_size": 20}


class TestMultiGPUWithLargeBatches(OptimizerTests):
    optimizer = "multi_gpu"
    config = {"train_batch_size": 200}
