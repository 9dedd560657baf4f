"""The policy graphs that learn from recorded experience, held to the contracts of their kinds."""

from __future__ import annotations

import pytest

from rlcore.testing.kit.policy.cases import DEFAULT_SPACES
from rlcore.testing.suites import ActorTests, PolicyGraphTests

#: Building a graph is slow in TensorFlow: those of a class are to be built once.
pytestmark = pytest.mark.xdist_group("rlcore-tf-offline-conformance")

#: Fewer than the kit has, as every one of them is traced anew.
SPACES = DEFAULT_SPACES[2:4]

class TestBC(PolicyGraphTests):
    graph = "tf.bc"
    spaces = SPACES
    config = {"entropy_coeff": 0.01, "model": {"hidden": [16]}}


class TestBCActor(ActorTests):
    graph = "tf.bc"
    spaces = SPACES


class TestMARWIL(PolicyGraphTests):
    graph = "tf.marwil"
    spaces = SPACES


class TestMARWILActor(ActorTests):
    graph = "tf.marwil"
    spaces = SPACES


class TestCQL(PolicyGraphTests):
    graph = "tf.cql"
    config = {"samples": 3, "model": {"hidden": [16], "activation": "relu"}}
