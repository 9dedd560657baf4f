"""The package and its optimizer, held to the contracts of their kinds: on every runtime that is installed.

With other settings on inline alone, which the tests of the runtimes compare the others with.
"""

from __future__ import annotations

import pytest

from rlcore.testing.suites import OptimizerTests, PluginTests

#: One process of pytest has the tests that start a Ray.
RAY = pytest.mark.xdist_group("ray")


class TestPackage(PluginTests):
    distribution = "rlcore-replay"


@RAY
class TestReplay(OptimizerTests):
    optimizer = "replay"


class TestReplayUniformly(OptimizerTests):
    optimizer = "replay"
    config = {"learning_starts": 20, "minibatch_size": 8, "learnt_per_sampled": 1.0, "capacity": 300}
    runtimes = ("inline",)


class TestReplayInSeveralRounds(OptimizerTests):
    optimizer = "replay"
    config = {"learning_starts": 0, "minibatch_size": 24, "learnt_per_sampled": 2.0, "prioritized": {}, "rounds": 3}
    runtimes = ("inline",)


class TestReplayOverSeveralSteps(OptimizerTests):
    optimizer = "replay"
    graph_config = {"n_step": 3}
    runtimes = ("inline",)
