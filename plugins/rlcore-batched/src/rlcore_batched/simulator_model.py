"""A simulator as what planners plan with."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from rlcore.columns import Columns
from rlcore.model import BatchedModel
from rlcore_batched.simulator import Simulator, State, length

_DICE = "dice"


class SimulatorModel(BatchedModel):
    """The exact dynamics of a simulator with one player. Chance comes from the generator that is passed in."""

    players = 1

    def __init__(self, simulator: Simulator[Any]) -> None:
        self._simulator = simulator

    @classmethod
    def of(cls, simulator: Simulator[Any]) -> SimulatorModel | None:
        """None where observations do not show the state."""
        obs = simulator.observe(simulator.start(np.zeros(1, np.uint64)))
        return None if simulator.from_obs(obs) is None else cls(simulator)

    def initial(self, n: int, rng: np.random.Generator) -> Columns:
        return dict(self._simulator.start(_seeds(n, rng)))

    def from_obs(self, obs: Columns) -> Columns:
        state = self._simulator.from_obs(obs)
        assert state is not None
        return dict(state)

    def legal(self, states: Columns) -> NDArray[np.bool_] | None:
        space = self._simulator.action_space
        return np.ones((length(_state(states)), int(space.n)), np.bool_) if isinstance(space, Discrete) else None

    def chance(self, states: Columns) -> NDArray[np.float64] | None:
        return None

    def step(
        self, states: Columns, actions: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Columns, NDArray[np.float32]]:
        state = _state(states)
        if _DICE in state:
            state = {**state, _DICE: _seeds(length(state), rng)}
        outcome = self._simulator.step(state, actions)
        return dict(outcome.state), np.asarray(outcome.rewards, np.float32)[:, None]

    def to_play(self, states: Columns) -> NDArray[np.int64]:
        return np.zeros(length(_state(states)), np.int64)

    def observe(self, states: Columns) -> Columns:
        return self._simulator.observe(_state(states))

    def terminal(self, states: Columns) -> NDArray[np.bool_]:
        return self._simulator.terminal(_state(states))


def _state(states: Columns) -> State:
    assert isinstance(states, dict)
    return states


def _seeds(n: int, rng: np.random.Generator) -> NDArray[np.uint64]:
    return rng.integers(0, 2**64, size=n, dtype=np.uint64)
