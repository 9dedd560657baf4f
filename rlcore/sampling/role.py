"""One policy's part in sampling: who acts, through which observation filters, at which version of the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns
from rlcore.errors import NoLegalActionError
from rlcore.policy_graph import Actor, ActOutput, ActRows, PolicyGraph, State
from rlcore.sampling.filters import NoFilter, ObservationFilter
from rlcore.sampling.observation_check import ObservationCheck


@dataclass
class Role:
    """A policy as the samplers see it. ``filters`` has one filter for each leaf of the observation space."""

    policy_id: str
    policy: PolicyGraph | Actor
    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    filters: Mapping[str, ObservationFilter]
    version: int = 0
    check: ObservationCheck | None = None
    #: For messages.
    env_name: str = "environment"

    def __post_init__(self) -> None:
        self._unfiltered = all(isinstance(one, NoFilter) for one in self.filters.values())

    def act(self, obs: Columns, state: State, rows: ActRows, explore: bool, rng: np.random.Generator) -> ActOutput:
        """Acts on raw observations. ``EnvError`` where a mask of the environment allows nothing."""
        try:
            return self.policy.act(self.normalise(obs), state, rows=rows, explore=explore, rng=rng)
        except NoLegalActionError as error:
            raise NoLegalActionError(f"environment '{self.env_name}', {error}") from None

    def normalise(self, obs: Columns) -> Columns:
        """``obs`` through the filters, with the statistics that hold for the whole fragment."""
        if self._unfiltered:
            return obs
        if isinstance(obs, dict):
            return {leaf: self.filters[leaf].normalise(array) for leaf, array in obs.items()}
        return self.filters[""].normalise(obs)

    def take_in(self, obs: Columns, slots: NDArray[Any], steps: NDArray[Any]) -> Columns:
        """Raw observations ``[n, ...]`` of ``slots`` at ``steps``, checked where that is asked for, and normalised."""
        if self.check is not None:
            self.check(obs, slots, steps)
        return self.normalise(obs)

    def observe(self, obs: Columns) -> None:
        """Counts raw observations into the filters' next statistics."""
        for leaf, array in (obs if isinstance(obs, dict) else {"": obs}).items():
            self.filters[leaf].observe(array)
