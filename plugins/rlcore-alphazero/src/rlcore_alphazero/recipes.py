"""The algorithm alphazero: which parts it is made of, and settings that are known to learn."""

from __future__ import annotations

from rlcore.algorithm import Algorithm


class AlphaZero(Algorithm):
    """Self-play with a search, learning what the search found, and a gate (Silver et al. 2017)."""

    policy_graph = "alphazero"
    optimizer = "alphazero"
    policy = {"learning_rate": 2e-3, "search": {"simulations": 64, "temperature": [[0, 1.0], [4, 1.0], [5, 0.2]]}}
    model = {"hidden": [128, 128], "activation": "relu", "shared_value": True}
    evaluators = {"envs": 64, "fragment": 16}
