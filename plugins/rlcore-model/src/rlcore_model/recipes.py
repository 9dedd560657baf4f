"""The model-based algorithms: which parts they are made of, and settings that are known to learn."""

from __future__ import annotations

from rlcore.algorithm import Algorithm


class MPC(Algorithm):
    """Model-predictive control: actions are planned with an ensemble of learnt dynamics models (Chua et al. 2018)."""

    policy_graph = "dynamics"
    optimizer = "replay"
    policy = {"learning_rate": 1e-3, "gamma": 0.99, "members": 5, "random_steps": 200}
    model = {"hidden": [64, 64], "activation": "tanh"}
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
