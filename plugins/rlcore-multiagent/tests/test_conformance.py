"""The package and environments of each kind that it adapts, held to the contract."""

from __future__ import annotations

import pytest

from rlcore.testing.suites import EnvTests, PluginTests


class TestPackage(PluginTests):
    distribution = "rlcore-multiagent"


class PettingZooTests(EnvTests, rules=EnvTests.rules):
    """Needs PettingZoo."""

    @classmethod
    def setup_class(cls) -> None:
        pytest.importorskip("pettingzoo")
