"""The package and its parts, held to the contracts of their kinds by the kit of the kernel."""

from rlcore.testing.suites import OptimizerTests, PluginTests, PolicyGraphTests


class TestPackage(PluginTests):
    distribution = "rlcore-example-plugin"


class TestAccumulate(OptimizerTests):
    optimizer = "accumulate"


class TestFeaturesPG(PolicyGraphTests):
    graph = "features.pg"
