"""What a policy is worth by episodes that another one played: importance sampling (Precup et al. 2000).

``ratios`` are ``pi(a | s) / b(a | s)`` by row, of the policy in question to the one that acted, given as logarithms.
Rows of one episode lie one behind the other, ``starts`` are their first ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Padded:
    """Episodes ``[episodes, steps]``, shorter ones filled up: discounted rewards with 0, and the logarithm of the
    product of the ratios up to each step with its last value."""

    rewards: Float64
    log_weights: Float64

    @property
    def weights(self) -> Float64:
        """The products of the ratios up to each step."""
        return np.exp(self.log_weights)

    @property
    def relative_weights(self) -> Float64:
        """The same as parts of the largest of each step, at least one of which is 1: however little the policies have
        in common, their sums are not 0."""
        return np.asarray(np.exp(self.log_weights - self.log_weights.max(0)), np.float64)


@dataclass(frozen=True)
class Estimates:
    """The discounted return of an episode that is to be expected, by each estimator, and its 95 % interval.

    ``effective_episodes`` is what the episodes are worth, as many as of the policy itself: ``(sum w)^2 / sum w^2``.
    """

    recorded: float
    importance: float
    weighted: float
    per_decision: float
    weighted_per_decision: float
    intervals: dict[str, tuple[float, float]]
    effective_episodes: float


def padded(log_ratios: Float64, rewards: Float64, starts: NDArray[np.int64], gamma: float) -> Padded:
    """``log_ratios`` and ``rewards`` ``[N]`` by episode."""
    lengths = np.diff(starts, append=len(rewards))
    t = np.arange(len(rewards)) - np.repeat(starts, lengths)
    episode = np.repeat(np.arange(len(starts)), lengths)
    shape = len(starts), int(lengths.max())
    table, logs = np.zeros(shape), np.zeros(shape)
    table[episode, t] = rewards * gamma**t
    logs[episode, t] = log_ratios
    return Padded(table, logs.cumsum(1))


def importance(episodes: Padded) -> float:
    """The mean of the returns, each times the product of all its ratios; without bias."""
    return float((episodes.weights[:, -1] * episodes.rewards.sum(1)).mean())


def weighted(episodes: Padded) -> float:
    """The same divided by the sum of the products: biased, with far less variance."""
    products = episodes.relative_weights[:, -1]
    return float((products * episodes.rewards.sum(1)).sum() / products.sum())


def per_decision(episodes: Padded) -> float:
    """Each reward times the product of the ratios up to it; without bias."""
    return float((episodes.weights * episodes.rewards).sum(1).mean())


def weighted_per_decision(episodes: Padded) -> float:
    """The same, where the products at each step are divided by their sum (Thomas 2015, section 3.3: CWPDIS)."""
    sums = (episodes.relative_weights * episodes.rewards).sum(0)
    return float((sums / episodes.relative_weights.sum(0)).sum())


ESTIMATORS: dict[str, Callable[[Padded], float]] = {
    "importance": importance,
    "weighted": weighted,
    "per_decision": per_decision,
    "weighted_per_decision": weighted_per_decision,
}


def estimate(episodes: Padded, rng: np.random.Generator, resamples: int = 1000) -> Estimates:
    """All estimators; intervals by drawing episodes with replacement, ``resamples`` times (Efron 1979)."""
    count = len(episodes.rewards)
    found = {name: estimator(episodes) for name, estimator in ESTIMATORS.items()}
    drawn: dict[str, list[float]] = {name: [] for name in ESTIMATORS}
    for _ in range(resamples):
        chosen = rng.integers(count, size=count)
        again = Padded(episodes.rewards[chosen], episodes.log_weights[chosen])
        for name, estimator in ESTIMATORS.items():
            drawn[name].append(estimator(again))
    intervals = {}
    for name, values in drawn.items():
        low, high = np.quantile(values, (0.025, 0.975))
        intervals[name] = float(low), float(high)
    products = episodes.relative_weights[:, -1]
    return Estimates(
        float(episodes.rewards.sum(1).mean()),
        **found,
        intervals=intervals,
        effective_episodes=float(products.sum() ** 2 / np.square(products).sum()),
    )
