"""The cross-entropy method over plans of actions (Rubinstein 1999), as model-predictive control uses it (Chua et al.
2018, algorithm 1): candidates are drawn, followed through a model, and the best say what is drawn next.

All candidates of all environments go through the model together, one array ``[copies x environments x candidates,
...]``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns, map_columns
from rlcore.model import BatchedModel
from rlcore.planning.plans import Belief, Float32, Plans

#: What sequences of actions ``[n, population, horizon, ...]`` from observations ``[n, ...]`` come to: float32
#: ``[n, population]``.
Valued = Callable[[Columns, NDArray[Any]], Float32]


def cross_entropy(
    plans: Plans, obs: Columns, plan: Float32, noise: Callable[[], Float32], valued: Valued
) -> Belief:
    """Where the best plans from ``obs [n, ...]`` are, starting from the plans ``[n, horizon, width]`` of before.

    ``noise()`` is what the candidates of the next round are made of, as ``plans`` draw it: of ``n`` rows, or of one for
    all of them, so that no row depends on its place.
    """
    belief = plans.begin(plan)
    for _ in range(plans.config.iterations):
        candidates = plans.candidates(belief, noise())
        returns = valued(obs, plans.actions(candidates))
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
    ``obs [n, ...]``, up to where an episode ends, in each of so many ``copies``: float32 ``[copies, n, population]``.
    """
    n, population, horizon = actions.shape[:3]
    states = model.from_obs(map_columns(lambda leaf: _repeated(leaf, copies, population), obs))
    totals = np.zeros(copies * n * population, np.float32)
    weights = np.ones_like(totals)
    for t in range(horizon):
        chosen = np.broadcast_to(actions[:, :, t], (copies, n, population, *actions.shape[3:]))
        states, rewards = model.step(states, chosen.reshape(len(totals), *actions.shape[3:]), rng)
        totals += weights * rewards[:, 0]
        weights *= np.where(model.terminal(states), np.float32(0.0), np.float32(gamma))
    return totals.reshape(copies, n, population)


def _repeated(leaf: NDArray[Any], copies: int, population: int) -> NDArray[Any]:
    """``[copies x n x population, ...]`` of rows ``[n, ...]``."""
    shape = (copies, len(leaf), population, *leaf.shape[1:])
    return np.broadcast_to(leaf[None, :, None], shape).reshape(-1, *leaf.shape[1:])
