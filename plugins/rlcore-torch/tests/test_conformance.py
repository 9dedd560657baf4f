"""The package, its policy graphs and their actors, held to the contracts of their kinds."""

from __future__ import annotations

from typing import Any

from rlcore.testing.suites import ActorTests, PluginTests, PolicyGraphTests
from rlcore_torch import PPOCentral


class TestPackage(PluginTests):
    distribution = "rlcore-torch"


class TestPG(PolicyGraphTests):
    graph = "torch.pg"


class TestPGActor(ActorTests):
    graph = "torch.pg"


class TestA3C(PolicyGraphTests):
    graph = "torch.a3c"


class TestA3CWithAdam(PolicyGraphTests):
    graph = "torch.a3c"
    config = {"update_rule": "adam", "normalize_advantages": True, "learning_rate": [[0, 1e-3], [2000, 1e-2]]}


class TestA3CActor(ActorTests):
    graph = "torch.a3c"


class TestPPO(PolicyGraphTests):
    graph = "torch.ppo"


class TestPPOWithEverySetting(PolicyGraphTests):
    graph = "torch.ppo"
    config = {
        "squash": True,
        "kl_coeff": 0.3,
        "value_clip": 0.5,
        "entropy_coeff": [[0, 0.1], [3000, 0.0]],
        "model": {"hidden": [8], "activation": "relu"},
    }


class TestPPOActor(ActorTests):
    graph = "torch.ppo"
    config = {"squash": True}


#: A game, whose rules it plans with.
TICTACTOE: dict[str, Any] = {
    "env": "batched:tictactoe",
    "config": {"search": {"simulations": 8}, "model": {"hidden": [16], "shared_value": True}},
}


class TestAlphaZero(PolicyGraphTests):
    graph = "torch.alphazero"
    env = TICTACTOE["env"]
    config = TICTACTOE["config"]


class TestAlphaZeroWithTwoNetworks(PolicyGraphTests):
    graph = "torch.alphazero"
    env = TICTACTOE["env"]
    config = {"search": {"simulations": 8, "solver": False, "leaves": 4}, "model": {"hidden": [8, 8]}}


class TestAlphaZeroWithATower(PolicyGraphTests):
    graph = "torch.alphazero"
    env = TICTACTOE["env"]
    config = {
        "search": {"simulations": 4},
        "model": {"encoder": "tower", "tower": {"blocks": 1, "channels": 4}, "hidden": [8]},
    }
    excused = {
        "spaces_it_cannot_handle_are_refused_by_name": "an encoder that is asked for where there is no image is the "
        "config's mistake: ConfigError names the setting and the space"
    }


class TestAlphaZeroActor(ActorTests):
    graph = "torch.alphazero"
    env = TICTACTOE["env"]
    config = TICTACTOE["config"]


class TestIMPALA(PolicyGraphTests):
    graph = "torch.impala"


class TestIMPALAWithEverySetting(PolicyGraphTests):
    graph = "torch.impala"
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
    graph = "torch.impala"


class TestAPPO(PolicyGraphTests):
    graph = "torch.appo"


class TestAPPOActor(ActorTests):
    graph = "torch.appo"
    config = {"squash": True}


class TestDQN(PolicyGraphTests):
    graph = "torch.dqn"


class TestDQNWithEverySetting(PolicyGraphTests):
    graph = "torch.dqn"
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
    graph = "torch.dqn"
    config = {"model": {"hidden": [8], "lstm": 6}, "n_step": 2, "dueling": True}


class TestDQNActor(ActorTests):
    graph = "torch.dqn"
    config = {"dueling": True, "noisy": 0.5, "n_step": 2, "initial_priorities": True}


class TestRecurrentDQNActor(ActorTests):
    graph = "torch.dqn"
    config = {"model": {"hidden": [8], "lstm": 6}}


class TestDDPG(PolicyGraphTests):
    graph = "torch.ddpg"


class TestDDPGActor(ActorTests):
    graph = "torch.ddpg"
    config = {"n_step": 3, "initial_priorities": True, "random_steps": 10}


class TestTD3(PolicyGraphTests):
    graph = "torch.td3"
    config = {"max_grad_norm": 1.0, "policy_learning_rate": 1e-4, "n_step": 2, "noise_correlation": 0.5}


class TestTD3Actor(ActorTests):
    graph = "torch.td3"


class TestSAC(PolicyGraphTests):
    graph = "torch.sac"


class TestSACWithEverySetting(PolicyGraphTests):
    graph = "torch.sac"
    config = {"temperature": 0.2, "n_step": 2, "random_steps": 100, "model": {"hidden": [8]}, "huber_delta": 1.0}


class TestSACActor(ActorTests):
    graph = "torch.sac"


class TestDynamics(PolicyGraphTests):
    graph = "torch.dynamics"
    config = {"members": 2, "planner": {"horizon": 3, "population": 8, "elites": 2, "iterations": 2}}


class TestDynamicsWithEverySetting(PolicyGraphTests):
    graph = "torch.dynamics"
    config = {
        "members": 3,
        "beta": 0.0,
        "max_grad_norm": 1.0,
        "learning_rate": [[0, 1e-3], [2000, 1e-4]],
        "random_steps": 10,
        "noise": 0.2,
        "model": {"hidden": [8], "activation": "tanh"},
        "planner": {"horizon": 2, "population": 6, "elites": 3, "iterations": 1, "noise_correlation": 0.0},
    }


class TestDynamicsActor(ActorTests):
    graph = "torch.dynamics"
    config = {"members": 2, "planner": {"horizon": 3, "population": 8, "elites": 2, "iterations": 2}}


class TestPPOCentral(PolicyGraphTests):
    graph = "torch.ppo_central"
    config = PPOCentral.conformance["config"]


class TestRecurrentPPOCentral(PolicyGraphTests):
    graph = "torch.ppo_central"
    config = {**PPOCentral.conformance["config"], "model": {"lstm": 4}}


class TestPPOCentralActor(ActorTests):
    graph = "torch.ppo_central"
    config = PPOCentral.conformance["config"]
