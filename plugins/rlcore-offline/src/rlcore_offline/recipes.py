"""The algorithms bc, marwil and cql: which parts they are made of. Each needs ``optimizer.dataset``."""

from __future__ import annotations

from rlcore.algorithm import Algorithm


class BC(Algorithm):
    """Behavioural cloning (Pomerleau 1989)."""

    policy_graph = "bc"
    optimizer = "offline"


class MARWIL(Algorithm):
    """Monotonic advantage-weighted imitation (Wang et al. 2018)."""

    policy_graph = "marwil"
    optimizer = "offline"


class CQL(Algorithm):
    """Conservative Q-learning (Kumar et al. 2020)."""

    policy_graph = "cql"
    optimizer = "offline"
    policy = {"learning_rate": 3e-4, "gamma": 0.99}
    model = {"hidden": [256, 256], "activation": "relu"}
