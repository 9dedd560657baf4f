"""Policies that nobody has trained, in any space, as a checkpoint would hold them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from rlcore.acting import ActorCriticActor, Architecture, ModelConfig
from rlcore.columns import leaf_spaces
from rlcore.config import ResolvedPolicy
from rlcore.sampling.filters import FILTERS, filtered_space, leaf_filters
from rlcore.saved_policies import SavedPolicy

Space = gymnasium.Space[Any]


def policy_of(
    observation_space: Space, action_space: Space, filter_name: str = "none", squash: bool = False, **model: Any
) -> SavedPolicy:
    """A policy with fresh weights, whose last layer is large enough to leave bounds."""
    rng = np.random.default_rng(0)
    filters = leaf_filters(FILTERS[filter_name], observation_space)
    if filter_name != "none":
        for leaf, own in filters.items():
            own.observe(_drawn(leaf_spaces(observation_space)[leaf], 50, rng))
            own.apply(own.take_delta())
    seen, config = filtered_space(observation_space, filters), ModelConfig(hidden=(8,), **model)
    weights = Architecture.of(seen, action_space, config, squash=squash).init(rng)
    weights["policy.out.weight"] *= 100.0
    actor = ActorCriticActor(seen, action_space, config, weights, squash=squash)
    return SavedPolicy(
        "default",
        ResolvedPolicy(graph="torch.ppo", optimizer={"name": "multi_gpu"}),  # type: ignore[arg-type]
        (observation_space, action_space),
        filter_name,
        {"kind": "actor_critic", **actor.describe()},
        weights,
        None,
        {leaf: own.get_statistics() for leaf, own in filters.items()},
        1,
    )


def _drawn(space: Space, n: int, rng: np.random.Generator) -> Any:
    space.seed(int(rng.integers(2**31)))
    return np.stack([np.asarray(space.sample(), space.dtype) for _ in range(n)])
