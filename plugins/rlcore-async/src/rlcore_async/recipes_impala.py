"""The algorithms impala and appo: which parts they are made of, and settings that are known to learn."""

from __future__ import annotations

from rlcore.algorithm import Algorithm


class IMPALA(Algorithm):
    """Actor-critic from samples as they come, put right by V-trace (Espeholt et al. 2018)."""

    policy_graph = "impala"
    optimizer = "async_samples"
    policy = {
        "learning_rate": 1e-3,
        "gamma": 0.99,
        "vtrace_lambda": 0.95,
        "normalize_advantages": True,
        "kl_coeff": 1.0,
    }
    # So much is learnt from each batch that two evaluators are ahead of the learner.
    optimizers = {"async_samples": {"batch_size": 1024, "epochs": 3, "minibatch_size": 128}}
    evaluators = {"envs": 16, "fragment": 32}
    settings = {
        "CartPole-v1": {
            "policy": {"learning_rate": [[0, 1e-3], [150_000, 1e-4]]},
            # Without it values of some runs settle where nothing is learnt any more.
            "reward_filter": "return_std",
        },
        "Acrobot-v1": {
            "policy": {
                "learning_rate": [[0, 1e-3], [250_000, 1e-4]],
                "entropy_coeff": [[0, 0.01], [250_000, 0.0]],
            },
        },
    }


class APPO(Algorithm):
    """Asynchronous PPO: the clipped surrogate of advantages by V-trace, several epochs over each batch."""

    policy_graph = "appo"
    optimizer = "async_samples"
    policy = {"learning_rate": 3e-4, "gamma": 0.99, "vtrace_lambda": 0.95, "entropy_coeff": 0.0}
    optimizers = {"async_samples": {"epochs": 10, "minibatch_size": 256}}
    evaluators = {"envs": 8, "fragment": 64}
    settings = {
        "CartPole-v1": {
            "policy": {
                "learning_rate": [[0, 1.5e-3], [80_000, 1e-4]],
                "clip": [[0, 0.2], [80_000, 0.05]],
                "gamma": 0.98,
                "vtrace_lambda": 0.9,
            },
            "optimizers": {"async_samples": {"minibatch_size": 128}},
            "evaluators": {"envs": 8, "fragment": 32},
        },
        "Acrobot-v1": {"policy": {"learning_rate": 1e-3}},
    }
