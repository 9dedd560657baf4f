"""Observation filters: running statistics that many samplers share, and the normalisation by them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Array, Columns, leaf_spaces
from rlcore.errors import SpaceError

#: A tree of dicts, arrays and numbers: what was seen since the last delta, ``{}`` for nothing.
Delta = dict[str, Any]

# A standard deviation below this is rounding noise of a constant, which is only centred.
_SMALLEST_STD = 1e-8


class RunningStatistics:
    """Count, mean and sum of squared deviations ``m2`` of arrays of one shape, in float64.

    Parts merge by the pairwise formula of Chan, Golub and LeVeque (1979), so that merged parts and the pooled data
    agree to rounding. The variance is the population's, ``m2 / count``.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.count = 0
        self.mean: NDArray[np.float64] = np.zeros(shape)
        self.m2: NDArray[np.float64] = np.zeros(shape)

    @property
    def std(self) -> NDArray[np.float64]:
        """The standard deviation; 0 where nothing was seen."""
        return np.asarray(np.sqrt(self.m2 / max(self.count, 1)), np.float64)

    def update(self, x: Array) -> None:
        """Adds the rows of ``x`` ``[n, *shape]``. ``ValueError`` for another shape."""
        if x.shape[1:] != self.mean.shape or x.ndim != self.mean.ndim + 1:
            raise ValueError(f"statistics of shape {self.mean.shape} cannot take rows of {x.shape}")
        if not len(x):
            return
        mean = x.mean(axis=0, dtype=np.float64)
        deviations = x - mean
        self._merge(len(x), mean, np.square(deviations, out=deviations).sum(axis=0))

    def merge(self, other: RunningStatistics) -> None:
        """Adds what ``other`` has seen."""
        self._merge(other.count, other.mean, other.m2)

    def _merge(self, count: int, mean: NDArray[np.float64], m2: NDArray[np.float64]) -> None:
        if not count:
            return
        total = self.count + count
        shift = mean - self.mean
        # New arrays: readers may hold the old ones.
        self.mean = np.asarray(self.mean + shift * (count / total), np.float64)
        self.m2 = np.asarray(self.m2 + m2 + np.square(shift) * (self.count * count / total), np.float64)
        self.count = total

    def get_state(self) -> dict[str, Any]:
        """``{"count", "mean", "m2"}``; the arrays are copies."""
        return {"count": self.count, "mean": self.mean.copy(), "m2": self.m2.copy()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what ``get_state`` gave. ``ValueError`` for another shape."""
        mean, m2 = (np.array(state[name], np.float64) for name in ("mean", "m2"))
        if mean.shape != self.mean.shape or m2.shape != self.m2.shape:
            raise ValueError(f"statistics of shape {self.mean.shape} cannot go on from {mean.shape} and {m2.shape}")
        self.count, self.mean, self.m2 = int(state["count"]), mean, m2

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> RunningStatistics:
        """The statistics that ``get_state`` gave ``state`` of."""
        statistics = cls(np.shape(state["mean"]))
        statistics.set_state(state)
        return statistics


class ObservationFilter(ABC):
    """Stands between the environment and the policy in a sampler; the learner sees what the policy saw.

    A sampler's round, and the owner's between rounds::

        seen = filter.normalise(obs)            # by statistics that stay fixed during the round
        filter.observe(obs)                     # raw observations, kept aside as the delta
        owner.apply(merge_deltas([worker.take_delta(), ...]))    # then the same delta to all, or owner.get_statistics()

    A delta that was taken must be applied by all or by none, and in the same order: then all filters stay equal.
    """

    #: How many deltas are in the statistics.
    version: int = 0

    @abstractmethod
    def output_space(self) -> gymnasium.Space[Any]:
        """The space of what the policy sees."""

    @abstractmethod
    def normalise(self, obs: Columns) -> Columns:
        """Observations ``[n, ...]`` as the policy sees them; float32 where they are normalised."""

    @abstractmethod
    def observe(self, obs: Columns) -> None:
        """Adds raw observations ``[n, ...]`` to the delta; the statistics stay as they are."""

    @abstractmethod
    def take_delta(self) -> Delta:
        """What was observed since the last call, and forgets it."""

    @abstractmethod
    def apply(self, delta: Delta) -> None:
        """Adds a delta to the statistics, and one to the version; an empty one changes nothing."""

    @abstractmethod
    def get_statistics(self) -> dict[str, Any]:
        """The statistics and the version, for another filter of the same spaces; the delta stays out."""

    @abstractmethod
    def set_statistics(self, state: Mapping[str, Any]) -> None:
        """Takes over statistics and version, and keeps the delta."""

    @abstractmethod
    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on exactly, the delta included."""

    @abstractmethod
    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what ``get_state`` gave."""


class NoFilter(ObservationFilter):
    """Hands observations on as they are."""

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        self._space = space

    def output_space(self) -> gymnasium.Space[Any]:
        return self._space

    def normalise(self, obs: Columns) -> Columns:
        return obs

    def observe(self, obs: Columns) -> None:
        pass

    def take_delta(self) -> Delta:
        return {}

    def apply(self, delta: Delta) -> None:
        pass

    def get_statistics(self) -> dict[str, Any]:
        return {}

    def set_statistics(self, state: Mapping[str, Any]) -> None:
        pass

    def get_state(self) -> dict[str, Any]:
        return {}

    def set_state(self, state: Mapping[str, Any]) -> None:
        pass


class _LeafMeanStd:
    """The statistics, the delta and the cached scale of one array of the observation."""

    def __init__(self, shape: tuple[int, ...], clip: float) -> None:
        self._clip = clip
        self.statistics = RunningStatistics(shape)
        self.delta = RunningStatistics(shape)
        self._inverse_std: NDArray[np.float64] = np.ones(shape)

    def refresh(self) -> None:
        """Has to follow every change of the statistics."""
        std = self.statistics.std
        self._inverse_std = np.divide(1.0, std, out=np.ones_like(std), where=std >= _SMALLEST_STD)

    def normalise(self, obs: Array) -> NDArray[np.float32]:
        if not self.statistics.count:
            return obs.astype(np.float32)
        scaled = obs - self.statistics.mean
        scaled *= self._inverse_std
        np.minimum(scaled, self._clip, out=scaled)
        np.maximum(scaled, -self._clip, out=scaled)
        return scaled.astype(np.float32)


class MeanStd(ObservationFilter):
    """Subtracts the running mean, divides by the running standard deviation, clips to ``[-clip, clip]``.

    Each Box of the observation is normalised by itself, number by number, and becomes float32; leaves that are no Box
    (Discrete, MultiBinary) pass unchanged. Before the first delta is applied observations pass as they are, in
    float32. A number that never varied is only centred.

    Raises ``SpaceError`` where the space has no Box.
    """

    def __init__(self, space: gymnasium.Space[Any], clip: float = 10.0) -> None:
        self._space = space
        self._clip = clip
        boxes = {leaf: box for leaf, box in leaf_spaces(space).items() if isinstance(box, gymnasium.spaces.Box)}
        if not boxes:
            raise SpaceError(f"filter mean_std: there is no Box to normalise in {space}")
        self._leaves = {leaf: _LeafMeanStd(box.shape, clip) for leaf, box in boxes.items()}
        self.version = 0

    def output_space(self) -> gymnasium.Space[Any]:
        """The same space with unbounded float32 boxes: the first observations are not yet clipped."""
        return _normalised(self._space)

    def normalise(self, obs: Columns) -> Columns:
        if not isinstance(obs, dict):
            return self._leaves[""].normalise(obs)
        return {
            leaf: self._leaves[leaf].normalise(array) if leaf in self._leaves else array for leaf, array in obs.items()
        }

    def observe(self, obs: Columns) -> None:
        for leaf, part in self._leaves.items():
            part.delta.update(obs[leaf] if isinstance(obs, dict) else obs)

    def take_delta(self) -> Delta:
        delta = {leaf: part.delta.get_state() for leaf, part in self._leaves.items() if part.delta.count}
        for part in self._leaves.values():
            part.delta = RunningStatistics(part.delta.mean.shape)
        return delta

    def apply(self, delta: Delta) -> None:
        if not delta:
            return
        for leaf, state in delta.items():
            self._leaves[leaf].statistics.merge(RunningStatistics.of(state))
            self._leaves[leaf].refresh()
        self.version += 1

    def get_statistics(self) -> dict[str, Any]:
        leaves = {leaf: part.statistics.get_state() for leaf, part in self._leaves.items()}
        return {"version": self.version, "leaves": leaves}

    def set_statistics(self, state: Mapping[str, Any]) -> None:
        for leaf, part in self._leaves.items():
            part.statistics.set_state(state["leaves"][leaf])
            part.refresh()
        self.version = int(state["version"])

    def get_state(self) -> dict[str, Any]:
        return {
            "statistics": self.get_statistics(),
            "delta": {leaf: part.delta.get_state() for leaf, part in self._leaves.items()},
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        self.set_statistics(state["statistics"])
        for leaf, part in self._leaves.items():
            part.delta.set_state(state["delta"][leaf])


def _normalised(space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
    if isinstance(space, gymnasium.spaces.Dict):
        return gymnasium.spaces.Dict({name: _normalised(child) for name, child in space.spaces.items()})
    if isinstance(space, gymnasium.spaces.Tuple):
        return gymnasium.spaces.Tuple([_normalised(child) for child in space.spaces])
    if isinstance(space, gymnasium.spaces.Box):
        return gymnasium.spaces.Box(-np.inf, np.inf, space.shape, np.float32)
    return space


def merge_deltas(deltas: Sequence[Delta]) -> Delta:
    """The deltas of many filters as one, merged in the order given."""
    merged: dict[str, RunningStatistics] = {}
    for delta in deltas:
        for leaf, state in delta.items():
            part = RunningStatistics.of(state)
            if leaf in merged:
                merged[leaf].merge(part)
            else:
                merged[leaf] = part
    return {leaf: statistics.get_state() for leaf, statistics in merged.items()}


def observation_filter(name: Literal["none", "mean_std"], space: gymnasium.Space[Any]) -> ObservationFilter:
    """The filter of a config's name for observations of ``space``."""
    return NoFilter(space) if name == "none" else MeanStd(space)
