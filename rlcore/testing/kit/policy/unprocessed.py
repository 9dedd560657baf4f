"""A policy whose batches stay as they were sampled."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlcore.columns import Columns
from rlcore.policy_graph import Actor, ActOutput, ActRows, PolicyGraph, Progress, State, Weights


class Unprocessed:
    """A policy that acts as another one does, and whose batches stay as they were sampled."""

    lookahead = 0
    postprocess = None

    def __init__(self, policy: PolicyGraph | Actor) -> None:
        self._policy = policy

    def initial_state(self, n: int) -> State:
        """The other's."""
        return self._policy.initial_state(n)

    def act(
        self,
        obs: Columns,
        state: State = (),
        *,
        rows: ActRows | None = None,
        explore: bool = True,
        rng: np.random.Generator,
    ) -> ActOutput:
        """As the other does."""
        return self._policy.act(obs, state, rows=rows, explore=explore, rng=rng)

    def on_progress(self, progress: Progress) -> None:
        """Passed on."""
        self._policy.on_progress(progress)

    def call(self, utility: str, *args: Any) -> Any:
        """Passed on."""
        return self._policy.call(utility, *args)

    def set_weights(self, weights: Weights) -> None:
        """Passed on."""
        self._policy.set_weights(weights)

    def get_state(self) -> dict[str, Any]:
        """The other's."""
        return self._policy.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """Passed on."""
        self._policy.set_state(state)
