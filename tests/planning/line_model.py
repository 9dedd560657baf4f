"""A point on a line: what planners are tried with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns
from rlcore.model import BatchedModel


class LineModel(BatchedModel):
    """The action ``[n, 1]`` is added to the place ``[n, 1]``; the reward is minus the square of the new place. The
    episode ends beyond 3."""

    def initial(self, n: int, rng: np.random.Generator) -> Columns:
        return np.zeros((n, 1), np.float32)

    def from_obs(self, obs: Columns) -> Columns:
        return obs

    def legal(self, states: Columns) -> NDArray[np.bool_] | None:
        return None

    def chance(self, states: Columns) -> NDArray[np.float64] | None:
        return None

    def step(
        self, states: Columns, actions: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Columns, NDArray[np.float32]]:
        assert not isinstance(states, dict)
        after = states + actions
        return after, np.asarray(-np.square(after), np.float32)

    def to_play(self, states: Columns) -> NDArray[np.int64]:
        return np.zeros(len(states), np.int64)

    def observe(self, states: Columns) -> Columns:
        return states

    def terminal(self, states: Columns) -> NDArray[np.bool_]:
        assert not isinstance(states, dict)
        return np.asarray(states[:, 0] > 3.0)
