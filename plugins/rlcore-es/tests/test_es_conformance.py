"""The package and its optimizers, held to the contracts of their kinds, on every runtime."""

from __future__ import annotations

import pytest

from rlcore.testing.suites import OptimizerTests, PluginTests

pytest.importorskip("rlcore_sync")


class TestPackage(PluginTests):
    distribution = "rlcore-es"


#: One process of pytest has the tests that start a Ray.
@pytest.mark.xdist_group("ray")
class TestES(OptimizerTests):
    optimizer = "es"


class TestARS(OptimizerTests):
    optimizer = "es"
    config = {
        "pairs": 16,
        "noise_std": 0.5,
        "learning_rate": 0.3,
        "noise_table": 10_000,
        "shaping": {"top": 8},
        "rule": {"momentum": 0.0},
    }
    runtimes = ("inline",)


class TestESWithATree(OptimizerTests):
    optimizer = "es"
    config = {"pairs": 16, "noise_std": 0.5, "learning_rate": 0.3, "noise_table": 10_000, "fan_out": 2}
    evaluators = 5
    runtimes = ("inline", "sim")


@pytest.mark.xdist_group("ray")
class TestNestedES(OptimizerTests):
    optimizer = "nested_es"
