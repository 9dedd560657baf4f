"""The off-policy algorithms: which parts they are made of, and settings that are known to learn."""

from __future__ import annotations

from rlcore.algorithm import Algorithm

#: An update of 256 transitions for each step.
_CONTINUOUS = {
    "capacity": 1_000_000,
    "learning_starts": 1000,
    "minibatch_size": 256,
    "learnt_per_sampled": 256.0,
    "rounds": 1000,
}
#: Small networks and minibatches, for tasks that need no more.
_SMALL = {
    "model": {"hidden": [64, 64]},
    "optimizers": {"replay": {"minibatch_size": 128, "learnt_per_sampled": 128.0}},
}


class DQN(Algorithm):
    """Double deep Q-learning (Mnih et al. 2015, van Hasselt et al. 2016)."""

    policy_graph = "dqn"
    optimizer = "replay"
    policy = {"learning_rate": 5e-4, "gamma": 0.99, "epsilon": [[0, 1.0], [10_000, 0.02]], "tau": 0.005}
    optimizers = {
        "replay": {
            "capacity": 50_000,
            "learning_starts": 1000,
            "minibatch_size": 32,
            "learnt_per_sampled": 8.0,
            "rounds": 250,
        }
    }
    evaluators = {"envs": 1, "fragment": 4}
    settings = {
        "CartPole-v1": {
            "policy": {
                "learning_rate": [[0, 2.3e-3], [100_000, 1e-5]],
                # With 0.99 some runs overestimate values and lose what they have learnt.
                "gamma": 0.98,
                "epsilon": [[0, 1.0], [8000, 0.05], [40_000, 0.01]],
                "n_step": 3,
                "tau": 0.01,
            },
            "model": {"hidden": [128, 128]},
            "optimizers": {
                "replay": {
                    "capacity": 100_000,
                    # Drawn evenly, in minibatches of 64, one run in ten ends below 475.
                    "prioritized": {},
                    "minibatch_size": 128,
                    "learnt_per_sampled": 64.0,
                }
            },
        },
    }


class Rainbow(Algorithm):
    """Deep Q-learning with six improvements (Hessel et al. 2018): double, dueling, distributional and noisy networks,
    sums over several steps, priorities. ``policy.distribution`` has to span the returns of the task."""

    policy_graph = "dqn"
    optimizer = "replay"
    policy = {
        "learning_rate": 2.5e-4,
        "gamma": 0.99,
        "epsilon": 0.0,
        "double": True,
        "dueling": True,
        "noisy": 0.5,
        "n_step": 3,
        "distribution": {"low": -10.0, "high": 10.0, "atoms": 51},
        "target_update_every": 8000,
    }
    optimizers = {
        "replay": {
            "capacity": 100_000,
            "learning_starts": 1000,
            "minibatch_size": 32,
            "learnt_per_sampled": 8.0,
            "rounds": 250,
            "prioritized": {"alpha": 0.5, "beta": [[0, 0.4], [1_000_000, 1.0]]},
        }
    }
    evaluators = {"envs": 1, "fragment": 4}
    settings = {
        "CartPole-v1": {
            "policy": {
                "learning_rate": [[0, 2e-3], [60_000, 5e-5]],
                "distribution": {"low": 0.0, "high": 100.0, "atoms": 51},
                "tau": 0.01,
            },
            "model": {"hidden": [128, 128]},
            "optimizers": {"replay": {"minibatch_size": 64, "learnt_per_sampled": 32.0}},
        },
    }


class DDPG(Algorithm):
    """Deep deterministic policy gradient (Lillicrap et al. 2016)."""

    policy_graph = "ddpg"
    optimizer = "replay"
    policy = {"learning_rate": 1e-3, "gamma": 0.99, "random_steps": 1000}
    optimizers = {"replay": _CONTINUOUS}
    evaluators = {"envs": 1, "fragment": 1}
    settings = {"Pendulum-v1": {"policy": {"gamma": 0.98}, **_SMALL}}


class TD3(Algorithm):
    """Twin delayed deep deterministic policy gradient (Fujimoto et al. 2018)."""

    policy_graph = "td3"
    optimizer = "replay"
    policy = {"learning_rate": 1e-3, "gamma": 0.99, "random_steps": 1000}
    optimizers = {"replay": _CONTINUOUS}
    evaluators = {"envs": 1, "fragment": 1}
    settings = {"Pendulum-v1": {"policy": {"gamma": 0.98}, **_SMALL}}


class SAC(Algorithm):
    """Soft actor-critic with a learnt temperature (Haarnoja et al. 2018)."""

    policy_graph = "sac"
    optimizer = "replay"
    policy = {"learning_rate": 3e-4, "gamma": 0.99, "random_steps": 1000}
    optimizers = {"replay": _CONTINUOUS}
    evaluators = {"envs": 1, "fragment": 1}
    settings = {
        "Pendulum-v1": {"policy": {"learning_rate": 1e-3, "gamma": 0.98}, **_SMALL},
        "MountainCarContinuous-v0": {
            "policy": {"learning_rate": 1e-3, "gamma": 0.995, "noise_correlation": 0.9, "random_steps": 2000},
            **_SMALL,
        },
    }
