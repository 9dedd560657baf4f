"""The algorithms ppo_es and a3c_es: evolution around PPO and around A3C, of which no line is another for that."""

from __future__ import annotations

from rlcore.algorithm import Algorithm

#: What a stroke brings comes long after it: PPO settles for wriggling. A member plays two whole episodes with weights
#: of its own, and whoever gets ahead by them is followed.
_SWIMMER = {
    "filter": "mean_std",
    "policy": {"learning_rate": 3e-4, "gamma": 0.999},
    "model": {"hidden": [16, 16]},
    "optimizers": {
        "nested_es": {
            "inner": {"epochs": 10, "minibatch_size": 256},
            "inner_steps": 1,
            "members": 8,
            "parents": 0.25,
            "noise_std": 0.1,
        }
    },
    "evaluators": {"envs": 2, "fragment": 1000},
}

#: Pictures, so many weights.
_CATCH = {
    "policy": {"learning_rate": 2e-3},
    "optimizers": {"nested_es": {"inner_steps": 3, "members": 4, "noise_std": 0.02}},
}


class PPOES(Algorithm):
    """Members are perturbed policies that learn with PPO before they are judged (Liang et al. 2018, section 5)."""

    policy_graph = "ppo"
    optimizer = "nested_es"
    policy = {"learning_rate": 3e-4, "gae_lambda": 0.95}
    optimizers = {
        "nested_es": {
            "inner": {"name": "multi_gpu", "epochs": 4, "minibatch_size": 256},
            "inner_steps": 2,
            "members": 8,
            "noise_std": 0.05,
        }
    }
    evaluators = {"envs": 8, "fragment": 128}
    settings = {"Swimmer-v5": _SWIMMER}


class A3CES(Algorithm):
    """The same around asynchronous advantage actor-critic."""

    policy_graph = "a3c"
    optimizer = "nested_es"
    policy = {"learning_rate": 1e-3, "gae_lambda": 0.95, "normalize_advantages": True}
    optimizers = {
        "nested_es": {
            "inner": {"name": "async_gradients", "rounds": 8},
            "inner_steps": 4,
            "members": 4,
            "noise_std": 0.05,
        }
    }
    evaluators = {"envs": 8, "fragment": 16}
    settings = {"batched:catch": _CATCH}
