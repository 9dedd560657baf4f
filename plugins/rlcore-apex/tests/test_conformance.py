"""The package and its optimizer, held to the contracts of their kinds: on every runtime that is installed."""

from __future__ import annotations

import pytest

from rlcore.testing.suites import OptimizerTests, PluginTests


class TestPackage(PluginTests):
    distribution = "rlcore-apex"


#: One process of pytest has the tests that start a Ray.
@pytest.mark.xdist_group("ray")
class TestApex(OptimizerTests):
    optimizer = "apex"


class TestApexWithSeveralMemories(OptimizerTests):
    optimizer = "apex"
    config = {
        "learning_starts": 16,
        "minibatch_size": 16,
        "learnt_per_sampled": 2.0,
        "capacity": 4096,
        "replay_actors": 3,
        "samples_ahead": 1,
        "draws_ahead": 1,
    }
    runtimes = ("inline", "sim")
