"""The package, its policy graphs and their actors, held to the contracts of their kinds."""

from __future__ import annotations

import pytest

from rlcore.learning.ppo_central import PPOCentralRules
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


class TestA3C(PolicyGraphTests):
    graph = "tf.a3c"
    spaces = SPACES


class TestA3CActor(ActorTests):
    graph = "tf.a3c"
    spaces = SPACES


class TestPPO(PolicyGraphTests):
    graph = "tf.ppo"


class TestPPOWithEverySetting(PolicyGraphTests):
    graph = "tf.ppo"
    spaces = SPACES
    config = {
        "squash": True,
        "kl_coeff": 0.3,
        "value_clip": 0.5,
        "entropy_coeff": [[0, 0.1], [3000, 0.0]],
        "model": {"hidden": [8], "activation": "relu"},
    }


class TestPPOActor(ActorTests):
    graph = "tf.ppo"
    spaces = SPACES
    config = {"squash": True}


class TestPPOCentral(PolicyGraphTests):
    graph = "tf.ppo_central"
    spaces = SPACES
    config = PPOCentralRules.conformance["config"]


class TestPPOCentralActor(ActorTests):
    graph = "tf.ppo_central"
    spaces = SPACES
    config = PPOCentralRules.conformance["config"]


class TestIMPALA(PolicyGraphTests):
    graph = "tf.impala"
    spaces = SPACES
    config = {
        "squash": True,
        "rho_clip": 0.9,
        "trace_clip": 0.8,
        "vtrace_lambda": 0.9,
        "advantage_rho_clip": 2.0,
        "normalize_advantages": True,
        "update_rule": "rmsprop",
        "entropy_coeff": [[0, 0.1], [3000, 0.0]],
        "model": {"hidden": [8], "activation": "relu"},
    }


class TestIMPALAActor(ActorTests):
    graph = "tf.impala"
    spaces = SPACES


class TestAPPO(PolicyGraphTests):
    graph = "tf.appo"
    spaces = SPACES


class TestAPPOActor(ActorTests):
    graph = "tf.appo"
    spaces = SPACES
    config = {"squash": True}
