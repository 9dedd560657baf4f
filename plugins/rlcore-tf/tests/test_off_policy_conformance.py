"""dqn, ddpg, td3 and sac, and their actors, held to the contracts of their kinds."""

from __future__ import annotations

import pytest

from rlcore.testing.kit.policy.cases import DEFAULT_SPACES
from rlcore.testing.suites import ActorTests, PolicyGraphTests

#: Building a graph is slow in TensorFlow: those of a class are to be built once.
pytestmark = pytest.mark.xdist_group("rlcore-tf-off-policy-conformance")


#: Fewer than the kit has, as every one of them is traced anew.
SPACES = DEFAULT_SPACES[3:4]


class TestDQN(PolicyGraphTests):
    graph = "tf.dqn"


class TestDQNWithEverySetting(PolicyGraphTests):
    graph = "tf.dqn"
    spaces = SPACES
    config = {
        "double": False,
        "dueling": True,
        "noisy": 0.5,
        "n_step": 3,
        "tau": 0.1,
        "distribution": {"low": -5, "high": 5, "atoms": 11},
        "initial_priorities": True,
    }


class TestRecurrentDQN(PolicyGraphTests):
    graph = "tf.dqn"
    spaces = SPACES
    config = {"model": {"hidden": [8], "lstm": 6}, "n_step": 2, "dueling": True}


class TestDQNActor(ActorTests):
    graph = "tf.dqn"
    config = {"dueling": True, "noisy": 0.5, "n_step": 2, "initial_priorities": True}


class TestRecurrentDQNActor(ActorTests):
    graph = "tf.dqn"
    config = {"model": {"hidden": [8], "lstm": 6}}


class TestDDPG(PolicyGraphTests):
    graph = "tf.ddpg"


class TestDDPGActor(ActorTests):
    graph = "tf.ddpg"
    config = {"n_step": 3, "initial_priorities": True, "random_steps": 10}


class TestTD3(PolicyGraphTests):
    graph = "tf.td3"
    config = {"max_grad_norm": 1.0, "policy_learning_rate": 1e-4, "n_step": 2, "noise_correlation": 0.5}


class TestTD3Actor(ActorTests):
    graph = "tf.td3"


class TestSAC(PolicyGraphTests):
    graph = "tf.sac"


class TestSACWithEverySetting(PolicyGraphTests):
    graph = "tf.sac"
    spaces = SPACES
    config = {"temperature": 0.2, "n_step": 2, "random_steps": 100, "model": {"hidden": [8]}, "huber_delta": 1.0}


class TestSACActor(ActorTests):
    graph = "tf.sac"
