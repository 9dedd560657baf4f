"""Derivatives of the policy gradient loss by the parameters of action distributions, written by hand."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlcore.acting import Categorical, DiagonalGaussian, Distribution, MultiCategorical, Product
from rlcore.acting.distributions import one_array
from rlcore.columns import Array, Columns

Float64 = NDArray[np.float64]


def by_parameters(
    distribution: Distribution, params: Array, actions: Columns, advantages: Array, entropy_coeff: float
) -> Float64:
    """Of ``-log pi(a) * advantage - entropy_coeff * entropy``, row by row: float64 ``[n, parameters]``.

    ``TypeError`` for a distribution that there is no derivative for.
    """
    if isinstance(distribution, Product):
        assert isinstance(actions, dict)
        result = np.zeros(params.shape)
        for leaf, part in distribution.parts.items():
            columns = distribution.columns[leaf]
            result[:, columns] = by_parameters(part, params[:, columns], actions[leaf], advantages, entropy_coeff)
        return result
    if isinstance(distribution, Categorical | MultiCategorical):
        return _by_logits(distribution, params, one_array(actions), advantages, entropy_coeff)
    if isinstance(distribution, DiagonalGaussian):
        return _by_mean_and_log_std(params, one_array(actions), advantages, entropy_coeff)
    raise TypeError(f"no derivatives of {type(distribution).__name__}")


def _by_logits(
    distribution: Categorical | MultiCategorical, logits: Array, actions: Array, advantages: Array, entropy_coeff: float
) -> Float64:
    """With ``p`` the probabilities: ``(p - onehot(a)) * advantage``, and ``p * (log p + entropy)`` of the entropy."""
    p = distribution.probabilities(logits)
    sizes = np.array(distribution.choices)
    starts = np.cumsum(sizes) - sizes
    weight = advantages[:, None]
    by_logits = p * weight
    by_logits[np.arange(len(p))[:, None], starts + actions.reshape(len(p), len(sizes))] -= weight
    if entropy_coeff:
        log_p = np.log(p, out=np.zeros_like(p), where=p > 0.0)
        entropy = -np.add.reduceat(p * log_p, starts, axis=1)
        by_logits += entropy_coeff * p * (log_p + np.repeat(entropy, sizes, axis=1))
    return by_logits


def _by_mean_and_log_std(params: Array, actions: Array, advantages: Array, entropy_coeff: float) -> Float64:
    """With ``z`` the standardised action: ``-z / std * advantage``, ``(1 - z**2) * advantage``; the entropy's is -1."""
    mean, log_std = np.split(params.astype(np.float64), 2, axis=1)
    z = (actions.reshape(mean.shape) - mean) * np.exp(-log_std)
    weight = advantages[:, None]
    return np.concatenate([-z * np.exp(-log_std) * weight, (1.0 - z * z) * weight - entropy_coeff], axis=1)
