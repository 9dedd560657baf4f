"""The package and its optimizer, held to the contracts of their kinds."""

from __future__ import annotations

import pytest

from rlcore.testing.suites import OptimizerTests, PluginTests


class TestPackage(PluginTests):
    distribution = "rlcore-alphazero"


#: One process of pytest has the tests that start a Ray.
@pytest.mark.xdist_group("ray")
class TestAlphaZero(OptimizerTests):
    optimizer = "alphazero"
