"""Who follows candidate plans through the members of an ensemble: whoever acts, or workers that have some of them each.

A member is followed by the same products wherever it is, so that what comes of it does not depend on how many workers
there are, bit for bit.
"""

from __future__ import annotations

import copy
import functools
import itertools
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns
from rlcore.crew import StrictCrew
from rlcore.members import Member, Patience, Watch
from rlcore.planning.architecture import ActionInputs, EnsembleArchitecture, Float32
from rlcore.planning.cross_entropy import returns_of
from rlcore.planning.ensemble import MeanEnsemble
from rlcore.policy_graph import Weights
from rlcore.runtime.base import Handle, Ref, Resources, Runtime

#: Seconds that a worker has for the candidates of one round.
PATIENCE_S = 60.0


class Follower:
    """Follows candidates through ``members`` of an ensemble by the means of their predictions; a worker, or not."""

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        architecture: EnsembleArchitecture,
        members: range,
        gamma: float,
    ) -> None:
        self.members = members
        self._whole, self._own = architecture, architecture.share(members)
        self._observation_space, self._inputs = observation_space, ActionInputs(action_space)
        self._gamma = gamma
        # What models are given; of means nothing is drawn.
        self._rng = np.random.default_rng(0)

    def share(self, weights: Weights) -> Weights:
        """Those of an ensemble's ``weights`` that this one needs."""
        return self._whole.weights_of(self.members, weights)

    def set_weights(self, share: Weights) -> None:
        """From now on plans are followed with the weights of such a share."""
        self._model = MeanEnsemble(self._observation_space, self._inputs, self._own, share)

    def returns(self, obs: Columns, actions: NDArray[Any]) -> Float32:
        """What ``actions [n, population, horizon, ...]`` from ``obs [n, ...]`` come to by each of the members: float32
        ``[members, n, population]``."""
        return returns_of(self._model, obs, actions, len(self.members), self._gamma, self._rng)


class Following(ABC):
    """Has candidates followed by all members."""

    @abstractmethod
    def set_weights(self, weights: Weights) -> None:
        """New weights of the whole ensemble."""

    @abstractmethod
    def returns(self, obs: Columns, actions: NDArray[Any]) -> Float32:
        """By member, as :meth:`Follower.returns`."""

    @abstractmethod
    def close(self) -> None:
        """Ends workers, where there are any."""

    def values(self, obs: Columns, actions: NDArray[Any]) -> Float32:
        """The mean of what all members say, ``[n, population]``."""
        return np.asarray(self.returns(obs, actions).mean(axis=0), np.float32)


class FollowedHere(Following):
    """By one ``follower`` of all members, in the process of whoever acts."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    def set_weights(self, weights: Weights) -> None:
        self._follower.set_weights(self._follower.share(weights))

    def returns(self, obs: Columns, actions: NDArray[Any]) -> Float32:
        return self._follower.returns(obs, actions)

    def close(self) -> None:
        """There is nothing to end."""


class FollowedByWorkers(Following):
    """By workers, each one of ``followers``, whose members are those of the ensemble in their order.

    One that is lost is replaced by one that has the same weights and is asked again. What those should do that there is
    no room for is done here meanwhile.
    """

    def __init__(self, runtime: Runtime, followers: Sequence[Follower]) -> None:
        self._runtime = runtime
        self._followers = followers
        #: References to what each of them was sent last.
        self._shares: list[Ref] = []
        builders = [functools.partial(copy.copy, follower) for follower in followers]
        members = [Member(i, build, runtime.spawn(build, Resources())) for i, build in enumerate(builders)]
        watch, patience = Watch(_lost, _vacant), Patience(PATIENCE_S)
        self._crew = StrictCrew(runtime, members, Resources(), self._bring_up, watch, patience, worker="planner")

    def _bring_up(self, handle: Handle, index: int, life: int) -> list[Ref]:
        return [handle.submit("set_weights", self._shares[index])]

    def set_weights(self, weights: Weights) -> None:
        self._shares = [self._runtime.put(follower.share(weights)) for follower in self._followers]
        for member in self._crew.members:
            if not member.vacant:
                self._crew.tell_one(member.index, "set_weights", self._shares[member.index])

    def returns(self, obs: Columns, actions: NDArray[Any]) -> Float32:
        parts = self._crew.ask("returns", self._runtime.put(obs), self._runtime.put(actions))
        for place in parts:
            self._crew.note_sample(self._crew.members[place])
        places = range(len(self._followers))
        return np.concatenate([parts[i] if i in parts else self._returns_here(i, obs, actions) for i in places])

    def _returns_here(self, place: int, obs: Columns, actions: NDArray[Any]) -> Float32:
        follower = self._followers[place]
        follower.set_weights(self._runtime.get(self._shares[place]))
        return follower.returns(obs, actions)

    def close(self) -> None:
        for handle in self._crew.handles:
            self._runtime.kill(handle)


def shares(members: int, workers: int) -> list[range]:
    """So many members among so many workers, in their order, as evenly as it goes; none is without."""
    count = min(members, workers)
    ends = [members * i // count for i in range(count + 1)]
    return [range(start, end) for start, end in itertools.pairwise(ends)]


def _lost(index: int, cause: str) -> None:
    warnings.warn(f"planner {index} was lost and is replaced: {cause}", RuntimeWarning, stacklevel=2)


def _vacant(places: Sequence[int], size: int) -> None:
    if places:
        warnings.warn(f"there is no room for {len(places)} of {size} planners", RuntimeWarning, stacklevel=2)
