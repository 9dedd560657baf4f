"""The algorithm alphazero: which parts it is made of, and settings that are known to learn."""

from __future__ import annotations

from rlcore.algorithm import Algorithm


class SelfPlay(Algorithm):
    """Self-play with a search, learning what the search found, and a gate (Silver et al. 2017)."""

    policy_graph = "alphazero"
    optimizer = "alphazero"
    policy = {"learning_rate": 2e-3, "search": {"simulations": 64, "temperature": [[0, 1.0], [8, 1.0], [9, 0.3]]}}
    model = {"hidden": [256, 256], "activation": "relu", "shared_value": True}
    evaluators = {"envs": 64, "fragment": 16}
    settings = {
        "batched:tictactoe": {
            "policy": {
                "learning_rate": [[0, 2e-3], [20_000, 2e-3], [40_000, 2e-4]],
                # Every position is to be seen, also those that nobody would play to.
                "search": {"simulations": 64, "temperature": 1.0, "random_moves": 0.3},
            },
            "optimizers": {
                "alphazero": {
                    "learnt_per_sampled": 16.0,
                    "minibatch_size": 512,
                    # With more simulations even a bad network does not lose, and nothing tells two of them apart.
                    "gate": {"every": 10, "openings": 128, "simulations": 2},
                },
            },
        },
        "batched:connect_four": {
            "policy": {
                "learning_rate": [[0, 1.5e-3], [1_000_000, 1.5e-3], [3_000_000, 1e-4]],
                "search_value_share": 0.5,
                "search": {
                    "simulations": 64,
                    "temperature": [[0, 1.0], [8, 1.0], [9, 0.3]],
                    "random_moves": 0.05,
                },
            },
            "model": {"encoder": "tower", "tower": {"blocks": 2, "channels": 32}, "hidden": [128]},
            "evaluators": {"envs": 256, "fragment": 8},
            "optimizers": {
                "alphazero": {
                    "capacity": 300_000,
                    "minibatch_size": 256,
                    "gate": {"every": 4, "openings": 64, "simulations": 16},
                },
            },
        },
    }
