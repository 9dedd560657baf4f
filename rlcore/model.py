"""BatchedModel: what a planner plans with, the rules of a game or learnt dynamics. Not a neural network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns


class BatchedModel(ABC):
    """Pure functions over a batch of ``n`` states. All randomness comes from the generator that is passed in.

    A batch of states is one array or ``{leaf: array}``, every leaf of leading length ``n``; nothing is hidden in the
    object, and no argument is changed in place.
    """

    #: How many players there are; 1 for a control problem.
    players: int = 1

    @abstractmethod
    def initial(self, n: int, rng: np.random.Generator) -> Columns:
        """``n`` states at the start of an episode."""

    @abstractmethod
    def from_obs(self, obs: Columns) -> Columns:
        """The states that the observations ``[n, ...]`` show."""

    @abstractmethod
    def legal(self, states: Columns) -> NDArray[np.bool_] | None:
        """bool ``[n, actions]``; None where actions are continuous."""

    @abstractmethod
    def chance(self, states: Columns) -> NDArray[np.float64] | None:
        """Outcome probabilities ``[n, outcomes]`` of the chance nodes; None where there are none."""

    @abstractmethod
    def step(
        self, states: Columns, actions: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Columns, NDArray[np.float32]]:
        """The successors, and the rewards float32 ``[n, players]``."""

    @abstractmethod
    def to_play(self, states: Columns) -> NDArray[np.int64]:
        """The player who moves, int64 ``[n]``."""

    @abstractmethod
    def observe(self, states: Columns) -> Columns:
        """What the player to move sees, ``[n, ...]``."""

    @abstractmethod
    def terminal(self, states: Columns) -> NDArray[np.bool_]:
        """bool ``[n]``."""
