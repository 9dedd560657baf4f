"""The algorithms pg, a2c and ppo: which parts they are made of, and settings that are known to learn."""

from __future__ import annotations

from rlcore.algorithm import Algorithm


class PG(Algorithm):
    """Policy gradient without a critic (Williams 1992, REINFORCE)."""

    policy_graph = "pg"
    optimizer = "multi_gpu"
    policy = {"learning_rate": 3e-3, "gamma": 0.99}
    evaluators = {"envs": 1, "episodes": 4}


class A2C(Algorithm):
    """Synchronous advantage actor-critic (Mnih et al. 2016, without the asynchrony)."""

    policy_graph = "a3c"
    optimizer = "multi_gpu"
    policy = {"learning_rate": 1e-3, "gamma": 0.99}
    evaluators = {"envs": 8, "fragment": 16}
    settings = {
        "CartPole-v1": {
            "policy": {
                "learning_rate": [[0, 2e-3], [150_000, 3e-4]],
                "gamma": 0.98,
                "gae_lambda": 0.95,
                "normalize_advantages": True,
            },
            "evaluators": {"envs": 8, "fragment": 8},
        },
    }


class PPO(Algorithm):
    """Proximal policy optimization (Schulman et al. 2017)."""

    policy_graph = "ppo"
    optimizer = "multi_gpu"
    policy = {"learning_rate": 3e-4, "gamma": 0.99, "gae_lambda": 0.95}
    optimizers = {
        "multi_gpu": {"epochs": 10, "minibatch_size": 256},
        "allreduce": {"epochs": 10, "minibatch_size": 256},
    }
    evaluators = {"envs": 8, "fragment": 128}
    settings = {
        "CartPole-v1": {
            "policy": {
                "learning_rate": [[0, 1.5e-3], [60_000, 1e-4]],
                "clip": [[0, 0.2], [60_000, 0.05]],
                "gamma": 0.98,
                "gae_lambda": 0.85,
            },
            "optimizers": {"multi_gpu": {"epochs": 20}, "allreduce": {"epochs": 20}},
            "evaluators": {"envs": 8, "fragment": 32},
        },
        "Acrobot-v1": {"policy": {"learning_rate": 2e-3}},
        "Pendulum-v1": {
            "policy": {
                "learning_rate": [[0, 1e-3], [60_000, 1e-4]],
                "gamma": 0.95,
                "gae_lambda": 0.9,
                "entropy_coeff": 0.005,
                "max_grad_norm": 1.0,
            },
            "model": {"activation": "relu"},
            "optimizers": {"multi_gpu": {"minibatch_size": 128}, "allreduce": {"minibatch_size": 128}},
            "evaluators": {"envs": 16, "fragment": 200},
        },
    }
