"""The algorithm ppo_central: which parts it is made of, and settings that are known to learn."""

from __future__ import annotations

from rlcore.algorithm import Algorithm


class PPOCentral(Algorithm):
    """Proximal policy optimization with a critic that sees what all agents see (MAPPO, Yu et al. 2022)."""

    policy_graph = "ppo_central"
    optimizer = "multi_gpu"
    policy = {"learning_rate": 3e-4, "gamma": 0.99, "gae_lambda": 0.95}
    optimizers = {
        "multi_gpu": {"epochs": 10, "minibatch_size": 256},
        "allreduce": {"epochs": 10, "minibatch_size": 256},
    }
    evaluators = {"envs": 8, "fragment": 128}
