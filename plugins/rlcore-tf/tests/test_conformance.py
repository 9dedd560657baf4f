"""The package, its policy graph and the actor, held to the contracts of their kinds."""

from __future__ import annotations

import pytest

from rlcore.testing.suites import ActorTests, PluginTests, PolicyGraphTests

#: Building a graph is slow in TensorFlow: those of a class are to be built once.
pytestmark = pytest.mark.xdist_group("rlcore-tf-conformance")


class TestPackage(PluginTests):
    distribution = "rlcore-tf"


class TestPG(PolicyGraphTests):
    graph = "tf.pg"
    config = {"entropy_coeff": 0.01, "model": {"hidden": [16]}}


class TestPGActor(ActorTests):
    graph = "tf.pg"
    config = {"squash": True, "model": {"hidden": [16]}}
