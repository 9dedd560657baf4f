"""The package, held to the contract of packages."""

from __future__ import annotations

from rlcore.testing.suites import PluginTests


class TestPackage(PluginTests):
    distribution = "rlcore-offline"
