"""Observation filters: running statistics that many samplers share, and the normalisation by them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.acting.refusals import shown
from rlcore.acting.scaling import is_image
from rlcore.acting.unseen import is_unseen
from rlcore.columns import Array, leaf_spaces, map_leaf_spaces
from rlcore.errors import SpaceError

#: What a filter has observed since its last delta: ``RunningStatistics.get_state()``, or ``{}`` for nothing.
FilterDelta = dict[str, Any]

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


class SharedStatistics(ABC):
    """What every sampler uses and none may change by itself: statistics that one owner merges and sends to all.

    A sampler's round, and the owner's between rounds::

        sampler uses what it has and keeps what it sees aside, as the delta

        owner.apply(merge_deltas([delta of each sampler]))
        sampler.set_statistics(owner.get_statistics())
    """

    #: How many deltas are in the statistics.
    version: int = 0

    @abstractmethod
    def take_delta(self) -> FilterDelta:
        """What was observed since the last call, and forgets it."""

    @abstractmethod
    def apply(self, delta: FilterDelta) -> None:
        """Adds a delta to the statistics, and one to the version; an empty one changes nothing."""

    @abstractmethod
    def get_statistics(self) -> dict[str, Any]:
        """Statistics and version, for the filters of samplers; the delta stays out."""

    @abstractmethod
    def set_statistics(self, state: Mapping[str, Any]) -> None:
        """Takes over statistics and version, and keeps the own delta."""

    @abstractmethod
    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on exactly, the delta included."""

    @abstractmethod
    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what ``get_state`` gave."""


class RunningShared(SharedStatistics):
    """Running statistics of arrays of one shape, and the delta beside them."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._statistics = RunningStatistics(shape)
        self._delta = RunningStatistics(shape)
        self._refresh()

    def _refresh(self) -> None:
        """The statistics have changed: the place to compute what follows from them."""

    def take_delta(self) -> FilterDelta:
        delta = self._delta.get_state() if self._delta.count else {}
        self._delta = RunningStatistics(self._delta.mean.shape)
        return delta

    def apply(self, delta: FilterDelta) -> None:
        if delta:
            self._statistics.merge(RunningStatistics.of(delta))
            self.version += 1
            self._refresh()

    def get_statistics(self) -> dict[str, Any]:
        return {"version": self.version, **self._statistics.get_state()}

    def set_statistics(self, state: Mapping[str, Any]) -> None:
        self._statistics.set_state(state)
        self.version = int(state["version"])
        self._refresh()

    def get_state(self) -> dict[str, Any]:
        return {"statistics": self.get_statistics(), "delta": self._delta.get_state()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        self.set_statistics(state["statistics"])
        self._delta.set_state(state["delta"])


class ObservationFilter(SharedStatistics):
    """Stands between the environment and the policy in a sampler, for one leaf of the observation space.

    The learner sees what the policy saw: ``normalise(obs)`` by statistics that stay fixed during a round;
    ``observe(obs)`` keeps raw observations aside. All arrays are ``[n, *shape]``.
    """

    @abstractmethod
    def __init__(self, space: gymnasium.Space[Any]) -> None:
        """A filter for observations of ``space``, with empty statistics."""

    @abstractmethod
    def output_space(self) -> gymnasium.Space[Any]:
        """The space of what the policy sees."""

    @abstractmethod
    def normalise(self, obs: Array) -> Array:
        """Observations as the policy sees them."""

    @abstractmethod
    def observe(self, obs: Array) -> None:
        """Adds raw observations to the delta; the statistics stay as they are."""


class NoFilter(ObservationFilter):
    """Hands observations on as they are."""

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        self._space = space

    def output_space(self) -> gymnasium.Space[Any]:
        return self._space

    def normalise(self, obs: Array) -> Array:
        return obs

    def observe(self, obs: Array) -> None:
        pass

    def take_delta(self) -> FilterDelta:
        return {}

    def apply(self, delta: FilterDelta) -> None:
        pass

    def get_statistics(self) -> dict[str, Any]:
        return {}

    def set_statistics(self, state: Mapping[str, Any]) -> None:
        pass

    def get_state(self) -> dict[str, Any]:
        return {}

    def set_state(self, state: Mapping[str, Any]) -> None:
        pass


class MeanStd(RunningShared, ObservationFilter):
    """Subtracts the running mean, divides by the running standard deviation, clips to ``[-clip, clip]``; to float32.

    Every number of the observation has statistics of its own; one that never varied is only centred. Before the first
    delta is applied observations pass unscaled and unclipped, in float32.

    Raises ``SpaceError`` for a space that is no Box.
    """

    def __init__(self, space: gymnasium.Space[Any], clip: float = 10.0) -> None:
        if not isinstance(space, gymnasium.spaces.Box):
            raise SpaceError(f"filter mean_std normalises a Box, not {shown(space)}")
        if is_image(space):
            raise SpaceError(f"filter mean_std normalises no images: the model divides {shown(space)} by 255 itself")
        self._clip = clip
        self._shape = space.shape
        super().__init__(space.shape)

    def output_space(self) -> gymnasium.Space[Any]:
        """An unbounded float32 Box: the first observations are not yet clipped."""
        return gymnasium.spaces.Box(-np.inf, np.inf, self._shape, np.float32)

    @property
    def statistics(self) -> RunningStatistics:
        """What observations are normalised by; to be read only."""
        return self._statistics

    @property
    def clip(self) -> float:
        """The largest number that observations are normalised to."""
        return self._clip

    @property
    def inverse_std(self) -> NDArray[np.float64]:
        """What deviations from the mean are multiplied with, ``[*shape]``; to be read only."""
        return self._inverse_std

    def normalise(self, obs: Array) -> NDArray[np.float32]:
        if not self._statistics.count:
            return obs.astype(np.float32)
        scaled = obs - self._statistics.mean
        scaled *= self._inverse_std
        np.minimum(scaled, self._clip, out=scaled)
        np.maximum(scaled, -self._clip, out=scaled)
        return scaled.astype(np.float32)

    def observe(self, obs: Array) -> None:
        self._delta.update(obs)

    def _refresh(self) -> None:
        std = self._statistics.std
        self._inverse_std: NDArray[np.float64] = np.divide(1.0, std, out=np.ones_like(std), where=std >= _SMALLEST_STD)


#: The filters that a config can name.
FILTERS: Mapping[str, type[ObservationFilter]] = {"none": NoFilter, "mean_std": MeanStd}


def merge_deltas(deltas: Sequence[FilterDelta]) -> FilterDelta:
    """The deltas of one leaf from many filters as one, merged in the order given; ``{}`` where nothing was seen."""
    parts = [RunningStatistics.of(delta) for delta in deltas if delta]
    if not parts:
        return {}
    for part in parts[1:]:
        parts[0].merge(part)
    return parts[0].get_state()


def leaf_filters(kind: type[ObservationFilter], space: gymnasium.Space[Any]) -> dict[str, ObservationFilter]:
    """A filter for each leaf of ``space``: of ``kind`` for its Boxes, none for leaves without a scale of their own.

    Those are images, whose scale is known, what is no feature, and whatever is no Box. Raises ``SpaceError`` where
    ``kind`` can handle none of the leaves.
    """
    leaves = leaf_spaces(space)
    filtered = {
        name
        for name, leaf in leaves.items()
        if isinstance(leaf, gymnasium.spaces.Box) and not is_image(leaf) and not is_unseen(name)
    }
    if not filtered:
        return {name: kind(leaf) for name, leaf in leaves.items()}
    return {name: kind(leaf) if name in filtered else NoFilter(leaf) for name, leaf in leaves.items()}


def filtered_space(space: gymnasium.Space[Any], filters: Mapping[str, ObservationFilter]) -> gymnasium.Space[Any]:
    """What a policy sees of ``space`` through ``filters``, one for each leaf."""
    return map_leaf_spaces(lambda leaf, _: filters[leaf].output_space(), space)
