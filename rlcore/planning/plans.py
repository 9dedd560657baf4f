"""What plans are drawn from: a Gaussian for each action in a box, a categorical for each discrete one.

Plans are arrays ``[n, horizon, width]``; ``n`` environments are planned for at once. All functions are pure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcore.acting.box_scale import BoxScale
from rlcore.planning.config import CrossEntropyConfig

Float32 = NDArray[np.float32]


class Belief(NamedTuple):
    """Where good plans are thought to be: ``center`` and ``spread``, ``[n, horizon, width]`` each.

    Of discrete actions ``center`` are probabilities, and ``spread`` is of no use.
    """

    center: Float32
    spread: Float32


class Plans(ABC):
    """One kind of actions. A candidate is a plan as it is drawn, ``[horizon, ...]``."""

    def __init__(self, config: CrossEntropyConfig) -> None:
        self.config = config

    @abstractmethod
    def initial(self, n: int) -> Float32:
        """The plans that an episode begins with, ``[n, horizon, width]``."""

    @abstractmethod
    def begin(self, plan: Float32) -> Belief:
        """Where to look around the plan of the step before."""

    @abstractmethod
    def noise(self, n: int, rng: np.random.Generator) -> Float32:
        """What ``n`` times ``population`` candidates are made of, ``[n, population, horizon, ...]``."""

    @abstractmethod
    def candidates(self, belief: Belief, noise: Float32) -> NDArray[Any]:
        """Candidates ``[n, population, horizon, ...]``; ``noise`` may be one row for all of the ``n``."""

    @abstractmethod
    def refit(self, belief: Belief, best: NDArray[Any]) -> Belief:
        """What the next round draws from, of the elites ``best [n, elites, horizon, ...]`` of this one."""

    @abstractmethod
    def actions(self, candidates: NDArray[Any]) -> NDArray[Any]:
        """Candidates as the actions that a model takes, ``[n, population, horizon, *shape]``."""

    @abstractmethod
    def first(self, plan: Float32) -> NDArray[Any]:
        """The first action of each plan, ``[n, *shape]``."""

    @abstractmethod
    def shifted(self, plan: Float32) -> Float32:
        """What is left of plans after their first action, with something to do at the end."""


class BoxPlans(Plans):
    """Actions in a bounded Box, as numbers from -1 to 1, ``width`` of them."""

    def __init__(self, config: CrossEntropyConfig, scale: BoxScale) -> None:
        super().__init__(config)
        self.scale = scale

    def initial(self, n: int) -> Float32:
        return np.zeros((n, self.config.horizon, self.scale.size), np.float32)

    def begin(self, plan: Float32) -> Belief:
        return Belief(plan, np.full_like(plan, self.config.initial_std))

    def noise(self, n: int, rng: np.random.Generator) -> Float32:
        """Normal with deviation 1, correlated along the horizon."""
        own = self.config
        noise = rng.standard_normal((n, own.population, own.horizon, self.scale.size), np.float32)
        return correlated(noise, own.noise_correlation)

    def candidates(self, belief: Belief, noise: Float32) -> Float32:
        """The first one is the center itself, so that the best is not worse than that."""
        found = belief.center[:, None] + belief.spread[:, None] * noise
        found[:, 0] = belief.center
        return np.clip(found, -1.0, 1.0, out=found)

    def refit(self, belief: Belief, best: Float32) -> Belief:
        keep = np.float32(self.config.momentum)
        center = keep * belief.center + (1 - keep) * best.mean(axis=1)
        spread = keep * belief.spread + (1 - keep) * best.std(axis=1)
        return Belief(center, np.maximum(spread, np.float32(self.config.smallest_std)))

    def actions(self, candidates: Float32) -> Float32:
        flat = self.scale.to_box(candidates.reshape(-1, self.scale.size))
        return flat.reshape(*candidates.shape[:3], *self.scale.shape)

    def first(self, plan: Float32) -> Float32:
        return self.scale.to_box(plan[:, 0])

    def shifted(self, plan: Float32) -> Float32:
        return np.concatenate([plan[:, 1:], np.zeros_like(plan[:, :1])], axis=1)


class DiscretePlans(Plans):
    """Actions from 0 to ``count - 1``; plans are probabilities, ``width`` is ``count``."""

    def __init__(self, config: CrossEntropyConfig, count: int) -> None:
        super().__init__(config)
        self.count = count

    def initial(self, n: int) -> Float32:
        return np.full((n, self.config.horizon, self.count), 1.0 / self.count, np.float32)

    def begin(self, plan: Float32) -> Belief:
        """Halfway back to equal probabilities: what was good for one state need not be for the next."""
        center = 0.5 * plan + np.float32(0.5 / self.count)
        return Belief(center, np.zeros_like(center))

    def noise(self, n: int, rng: np.random.Generator) -> Float32:
        """Uniform from 0 to 1."""
        return rng.random((n, self.config.population, self.config.horizon), np.float32)

    def candidates(self, belief: Belief, noise: Float32) -> NDArray[np.int64]:
        """The first one takes the likeliest actions."""
        limits = np.cumsum(belief.center, axis=2)[:, None]
        limits = limits / limits[..., -1:]
        found = np.asarray((noise[..., None] >= limits[..., :-1]).sum(axis=3), np.int64)
        found[:, 0] = belief.center.argmax(axis=2)
        return found

    def refit(self, belief: Belief, best: NDArray[np.int64]) -> Belief:
        keep, least = np.float32(self.config.momentum), np.float32(self.config.smallest_probability)
        shares = np.asarray((best[..., None] == np.arange(self.count)).mean(axis=1), np.float32)
        center = np.maximum(keep * belief.center + (1 - keep) * shares, least)
        return Belief(center / center.sum(axis=2, keepdims=True), belief.spread)

    def actions(self, candidates: NDArray[np.int64]) -> NDArray[np.int64]:
        return candidates

    def first(self, plan: Float32) -> NDArray[np.int64]:
        return np.asarray(plan[:, 0].argmax(axis=1), np.int64)

    def shifted(self, plan: Float32) -> Float32:
        return np.concatenate([plan[:, 1:], np.full_like(plan[:, :1], 1.0 / self.count)], axis=1)


def correlated(noise: Float32, correlation: float) -> Float32:
    """Normal draws ``[n, population, horizon, width]`` of deviation 1 as ones whose neighbours along the horizon are so
    correlated: ``x[t] = c x[t - 1] + sqrt(1 - c^2) noise[t]``."""
    if not correlation:
        return noise
    found, fresh = noise.copy(), np.float32(np.sqrt(1.0 - correlation**2))
    for t in range(1, noise.shape[2]):
        found[:, :, t] = np.float32(correlation) * found[:, :, t - 1] + fresh * noise[:, :, t]
    return found
