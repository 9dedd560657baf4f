"""The model-based algorithms: which parts they are made of, and settings that are known to learn."""

from __future__ import annotations

from rlcore.algorithm import Algorithm


class MPC(Algorithm):
    """Model-predictive control: actions are planned with an ensemble of learnt dynamics models (Chua et al. 2018)."""

    policy_graph = "dynamics"
    optimizer = "replay"
    policy = {"learning_rate": 3e-3, "gamma": 0.99, "members": 5, "random_steps": 200}
    model = {"hidden": [64, 64], "activation": "relu"}
    optimizers = {
        "replay": {
            "capacity": 100_000,
            "learning_starts": 200,
            "minibatch_size": 256,
            "learnt_per_sampled": 256.0,
            "rounds": 10,
        }
    }
    evaluators = {"envs": 1, "fragment": 20}
    settings = {
        "Pendulum-v1": {"policy": {"planner": {"horizon": 20, "population": 32, "elites": 5, "iterations": 2}}}
    }


class ImaginedSAC(Algorithm):
    """Model-based policy optimization (Janner et al. 2019): soft actor-critic on short rollouts in learnt dynamics."""

    policy_graph = "sac"
    optimizer = "mbpo"
    policy = {"learning_rate": 3e-4, "gamma": 0.99, "random_steps": 500}
    optimizers = {
        "mbpo": {
            "capacity": 100_000,
            "imagined_capacity": 20_000,
            "learning_starts": 500,
            "minibatch_size": 256,
            "learnt_per_sampled": 512.0,
            "real_share": 0.1,
            "rollouts_per_sampled": 20.0,
            "rollout_length": 1.0,
            "dynamics": {"minibatch_size": 256, "learnt_per_sampled": 256.0},
            "rounds": 10,
        }
    }
    evaluators = {"envs": 1, "fragment": 20}
    settings = {
        "Pendulum-v1": {
            "policy": {"learning_rate": 1e-3, "gamma": 0.98},
            "model": {"hidden": [64, 64]},
            "optimizers": {"mbpo": {"minibatch_size": 128, "learnt_per_sampled": 128.0}},
        }
    }
