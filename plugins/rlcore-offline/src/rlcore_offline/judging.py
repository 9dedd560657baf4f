"""What a trained policy is worth by a dataset that another one played."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rlcore.batch import ACTION_LOGP, REWARDS, START
from rlcore.errors import UserError
from rlcore.known import framework_of
from rlcore.policy_graph import PolicyGraph
from rlcore.saved_policies import read_policy
from rlcore_offline.estimates import Estimates, estimate, padded
from rlcore_offline.filtering import filtered
from rlcore_offline.sources import load


def judge(
    path: Path | str,
    dataset: str,
    *,
    policy: str | None = None,
    gamma: float | None = None,
    seed: int = 0,
    trust: bool = False,
) -> Estimates:
    """Estimates for the policy of a run or checkpoint, which ``policy`` names where there are several; ``gamma`` left
    out is that which it learnt with.

    Raises ``UserError`` where the dataset does not say how likely its actions were, is of other spaces, or the policy
    cannot say how likely an action is.
    """
    saved = read_policy(path, policy)
    recorded = load(dataset)
    batch = recorded.batch
    if recorded.spaces != saved.spaces:
        raise UserError(f"dataset {dataset} is of {recorded.spaces}, the policy of {saved.spaces}")
    if ACTION_LOGP not in batch:
        raise UserError(f"dataset {dataset} does not say how likely its actions were: record without --deterministic")
    graph = saved.build(framework_of(saved.settings.graph), trust)
    assert isinstance(graph, PolicyGraph)
    log_probs = None if graph.initial_state(1) else graph.log_probs(filtered(saved.filters(), batch))
    if log_probs is None:
        raise UserError(f"{saved.settings.graph} cannot say how likely a recorded action is")
    ratios = log_probs.astype(np.float64) - batch[ACTION_LOGP]
    discount = graph.config.discount if gamma is None else gamma
    episodes = padded(ratios, batch[REWARDS].astype(np.float64), batch.cuts[START], discount)
    return estimate(episodes, np.random.default_rng(seed))
