"""The package, its policy graph and the actor, held to the contracts of their kinds."""

from __future__ import annotations

import pytest

from rlcore.testing.kit.policy.cases import DEFAULT_SPACES
from rlcore.testing.suites import ActorTests, PluginTests, PolicyGraphTests

#: Building a graph is slow in TensorFlow: those of a class are to be built once.
pytestmark = pytest.mark.xdist_group("rlcore-tf-conformance")


class TestPackage(PluginTests):
    distribution = "rlcore-tf"


#: Fewer than the kit has, as every one of them is traced anew.
SPACES = DEFAULT_SPACES[2:4]


class TestPG(PolicyGraphTests):
    graph = "tf.pg"
    spaces = SPACES
    config = {"entropy_coeff": 0.01, "model": {"hidden": [16]}}


class TestPGActor(ActorTests):
    graph = "tf.pg"
    spaces = DEFAULT_SPACES[1:2]
    config = {"squash": True, "model": {"hidden": [16]}}
