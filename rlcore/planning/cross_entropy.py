"""The cross-entropy method over plans of actions (Rubinstein 1999), as model-predictive control uses it (Chua et al.
2018, algorithm 1): candidates are drawn, followed through a model, and the best say what is drawn next.

All candidates of all environments go through the model together, one array ``[copies x environments x candidates,
...]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns, map_columns
from rlcore.model import BatchedModel
from rlcore.planning.plans import Belief, Float32, Plans


def cross_entropy(
    model: BatchedModel,
    plans: Plans,
    obs: Columns,
    plan: Float32,
    *,
    copies: int,
    gamma: float,
    rng: np.random.Generator,
    alike: bool,
) -> Belief:
    """Where the best plans from ``obs [n, ...]`` are, starting from the plans ``[n, horizon, width]`` of before.

    ``alike`` draws the same for every row, so that no row depends on its place; ``copies`` are followed of each
    candidate, and the mean of their returns counts.
    """
    belief, n = plans.begin(plan), len(plan)
    for _ in range(plans.config.iterations):
        candidates = plans.candidates(belief, plans.noise(1 if alike else n, rng))
        returns = returns_of(model, obs, plans.actions(candidates), copies, gamma, rng)
        belief = plans.refit(belief, elites(candidates, returns, plans.config.elites))
    return belief


def elites(candidates: NDArray[Any], returns: NDArray[np.float32], count: int) -> NDArray[Any]:
    """The ``count`` candidates of the highest returns ``[n, population]``, ``[n, count, ...]``; a return that is no
    number is the lowest."""
    order = np.argsort(-np.where(np.isnan(returns), -np.inf, returns), axis=1, kind="stable")
    chosen = order[:, :count].reshape(*order[:, :count].shape, *(1,) * (candidates.ndim - 2))
    return np.take_along_axis(candidates, chosen, axis=1)


def returns_of(
    model: BatchedModel, obs: Columns, actions: NDArray[Any], copies: int, gamma: float, rng: np.random.Generator
) -> NDArray[np.float32]:
    """The discounted sum of the rewards of each sequence of ``actions [n, population, horizon, ...]`` from its row of
    ``obs [n, ...]``, up to where an episode ends: the mean over ``copies``, float32 ``[n, population]``."""
    n, population, horizon = actions.shape[:3]
    states = model.from_obs(map_columns(lambda leaf: _repeated(leaf, copies, population), obs))
    totals = np.zeros(copies * n * population, np.float32)
    weights = np.ones_like(totals)
    for t in range(horizon):
        chosen = np.broadcast_to(actions[:, :, t], (copies, n, population, *actions.shape[3:]))
        states, rewards = model.step(states, chosen.reshape(len(totals), *actions.shape[3:]), rng)
        totals += weights * rewards[:, 0]
        weights *= np.where(model.terminal(states), np.float32(0.0), np.float32(gamma))
    return np.asarray(totals.reshape(copies, n, population).mean(axis=0), np.float32)


def _repeated(leaf: NDArray[Any], copies: int, population: int) -> NDArray[Any]:
    """``[copies x n x population, ...]`` of rows ``[n, ...]``."""
    shape = (copies, len(leaf), population, *leaf.shape[1:])
    return np.broadcast_to(leaf[None, :, None], shape).reshape(-1, *leaf.shape[1:])
