"""The algorithm es: which parts it is made of, and settings that are known to learn."""

from __future__ import annotations

from rlcore.algorithm import Algorithm


class EvolutionStrategies(Algorithm):
    """Evolution strategies (Salimans et al. 2017)."""

    policy_graph = "pg"
    optimizer = "es"
    evaluators = {"envs": 32}
    optimizers = {"es": {"pairs": 64, "noise_std": 0.05, "learning_rate": 0.02}}
    settings = {}
