"""The algorithms apex_dqn and apex_ddpg: which parts they are made of, and settings that are known to learn."""

from __future__ import annotations

from rlcore.algorithm import Algorithm

#: With a handful of environments the ladder of hundreds would leave all but one of them without exploration.
_FEW_ENVIRONMENTS = {"exponent": 3.0}


class ApexDQN(Algorithm):
    """Double, dueling Q-learning of three steps by distributed prioritised replay (Horgan et al. 2018)."""

    policy_graph = "dqn"
    optimizer = "apex"
    policy = {
        "learning_rate": 2.5e-4,
        "gamma": 0.99,
        "n_step": 3,
        "dueling": True,
        "initial_priorities": True,
    }
    evaluators = {"envs": 8, "fragment": 50}
    settings = {
        "CartPole-v1": {
            "policy": {
                "learning_rate": [[0, 2.3e-3], [80_000, 1e-4], [95_000, 1e-5]],
                # Runs with it ended below 475 more often than runs without.
                "dueling": False,
                "tau": 0.01,
            },
            "model": {"hidden": [128, 128]},
            "optimizers": {
                "apex": {
                    "capacity": 100_000,
                    "learning_starts": 1000,
                    # With minibatches of 64 some runs lost at their end what they had learnt.
                    "minibatch_size": 128,
                    "learnt_per_sampled": 64.0,
                    "max_weight_delay": 64,
                    "replay_actors": 2,
                },
            },
            "evaluators": {"envs": 4, "fragment": 8},
        },
    }


class ApexDDPG(Algorithm):
    """Deep deterministic policy gradient of several steps by distributed prioritised replay (Horgan et al. 2018)."""

    policy_graph = "ddpg"
    optimizer = "apex"
    policy = {"learning_rate": 1e-3, "gamma": 0.99, "n_step": 3, "initial_priorities": True}
    evaluators = {"envs": 8, "fragment": 50}
    settings = {
        "Pendulum-v1": {
            "policy": {"learning_rate": [[0, 1e-3], [15_000, 1e-3], [25_000, 1e-4]], "gamma": 0.98, "n_step": 1},
            "model": {"hidden": [64, 64]},
            "optimizers": {
                "apex": {
                    "capacity": 100_000,
                    "learning_starts": 1000,
                    "minibatch_size": 128,
                    "learnt_per_sampled": 128.0,
                    "max_weight_delay": 16,
                    "prioritized": {"beta": [[0, 0.4], [25_000, 1.0]]},
                    "exploration": _FEW_ENVIRONMENTS,
                },
            },
            "evaluators": {"envs": 1, "fragment": 4},
        },
    }
