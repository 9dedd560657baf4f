"""The algorithms a3c and a3c_ps: which parts they are made of, and settings that are known to learn."""

from __future__ import annotations

from rlcore.algorithm import Algorithm


class A3C(Algorithm):
    """Asynchronous advantage actor-critic (Mnih et al. 2016): gradients are applied as they come."""

    policy_graph = "a3c"
    optimizer = "async_gradients"
    policy = {"learning_rate": 1e-3, "gamma": 0.99}
    evaluators = {"envs": 8, "fragment": 16}
    settings = {
        # Values of up to 100 would drive the units of the value network to their limits, where it learns no more: so
        # rewards are scaled. A shorter horizon does not see the cart leave the track.
        "CartPole-v1": {
            "policy": {
                "learning_rate": [[0, 1.5e-3], [150_000, 1e-4]],
                "gae_lambda": 0.95,
                "normalize_advantages": True,
            },
            "evaluators": {"envs": 8, "fragment": 16},
            "reward_filter": "return_std",
        },
        "Acrobot-v1": {
            "policy": {
                "learning_rate": [[0, 2e-3], [200_000, 2e-4]],
                "gae_lambda": 0.95,
                "normalize_advantages": True,
            },
            "evaluators": {"envs": 8, "fragment": 16},
        },
    }


class A3CWithShards(A3C):
    """The same with weights in parameter shards."""

    optimizer = "sharded_ps"
