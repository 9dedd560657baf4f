"""The algorithm es: which parts it is made of, and settings that are known to learn."""

from __future__ import annotations

from rlcore.algorithm import Algorithm

#: Small networks, as every weight is one more direction to search; a task each for two evaluators.
_CARTPOLE = {
    "model": {"hidden": [16]},
    "optimizers": {
        "es": {"pairs": 96, "task_pairs": 48, "evaluations": 32, "noise_std": 0.1, "learning_rate": 0.05}
    },
    "evaluators": {"envs": 64},
}


class EvolutionStrategies(Algorithm):
    """Evolution strategies (Salimans et al. 2017). ``optimizer.shaping.top`` makes it ARS (Mania et al. 2018)."""

    policy_graph = "pg"
    optimizer = "es"
    evaluators = {"envs": 32}
    optimizers = {"es": {"pairs": 64, "noise_std": 0.05, "learning_rate": 0.02}}
    settings = {
        "CartPole-v1": _CARTPOLE,
        "batched:cartpole": _CARTPOLE,
        "Pendulum-v1": {
            "model": {"hidden": [16, 16]},
            "optimizers": {
                "es": {
                    "pairs": 24,
                    "task_pairs": 12,
                    "common_starts": True,
                    "evaluations": 8,
                    "noise_std": 0.2,
                    # Large until it swings up; falling, so that it keeps what it has.
                    "learning_rate": [[0, 0.1], [700_000, 0.1], [1_100_000, 0.03]],
                }
            },
            "evaluators": {"envs": 16},
        },
    }
