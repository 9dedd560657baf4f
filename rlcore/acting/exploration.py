"""How far policies explore that do not draw from a distribution: rates that follow a schedule, and epsilon-greedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlcore.errors import UserError
from rlcore.policy_graph import ActRows
from rlcore.schedule import value_at


class ExplorationRate:
    """A number by environment slot: an epsilon, a scale of noise. It follows a schedule of environment steps until it
    is set, to one number for all slots or to one for each."""

    def __init__(self, schedule: float | Sequence[Sequence[float]]) -> None:
        self._schedule = schedule
        self._env_steps = 0
        self._set: NDArray[np.float64] | None = None

    @property
    def env_steps(self) -> int:
        """How far the run is."""
        return self._env_steps

    def advance(self, env_steps: int) -> None:
        """The run has come to so many environment steps."""
        self._env_steps = env_steps

    def set(self, value: ArrayLike | None) -> None:
        """From now on it is ``value``, a number or ``[slots]``; None goes back to the schedule.

        ``UserError`` for anything else, and for numbers that are negative or not finite.
        """
        if value is None:
            self._set = None
            return
        given = np.array(value, np.float64)
        if given.ndim > 1 or not given.size or not (np.isfinite(given) & (given >= 0.0)).all():
            raise UserError(f"a rate of exploration is a number of 0 or more, or one for each slot, not {value!r}")
        self._set = given

    def now(self) -> NDArray[np.float64]:
        """The number as it stands, ``[]`` or ``[slots]``."""
        return np.array(value_at(self._schedule, self._env_steps)) if self._set is None else self._set

    def of(self, rows: ActRows | None) -> float | NDArray[np.float64]:
        """The number for each of ``rows``, ``[n]``, or one for all. ``UserError`` for a slot that it has none for."""
        if self._set is None:
            return value_at(self._schedule, self._env_steps)
        if not self._set.ndim:
            return float(self._set)
        if rows is None or (len(rows.slot) and int(np.max(rows.slot)) >= len(self._set)):
            slots = "slots that are not told" if rows is None else f"slot {int(np.max(rows.slot))}"
            raise UserError(f"the rate of exploration was set for {len(self._set)} slots, and {slots} should act")
        return np.asarray(self._set[rows.slot])

    def get_state(self) -> dict[str, Any]:
        """``env_steps`` and ``set``, None where the schedule holds."""
        return {"env_steps": self._env_steps, "set": None if self._set is None else self._set.copy()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from what ``get_state`` gave."""
        self._env_steps = int(state["env_steps"])
        self._set = None if state["set"] is None else np.array(state["set"], np.float64)


def greedy(q: NDArray[np.float32], allowed: NDArray[np.bool_] | None) -> NDArray[np.int64]:
    """The best action of each row of ``q [n, actions]`` that is allowed; the first of several."""
    return np.asarray((q if allowed is None else np.where(allowed, q, -np.inf)).argmax(axis=1), np.int64)


def epsilon_greedy(
    q: NDArray[np.float32],
    allowed: NDArray[np.bool_] | None,
    epsilon: float | NDArray[np.float64],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """The best action of each row, with probability ``epsilon`` (a number or ``[n]``) any of those allowed instead."""
    n, actions = q.shape
    explores = rng.random(n) < epsilon
    anything = rng.integers(actions, size=n) if allowed is None else _any_of(allowed, rng)
    return np.where(explores, anything, greedy(q, allowed))


def _any_of(allowed: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    count = np.cumsum(allowed, axis=1)
    chosen = np.floor(rng.random(len(allowed)) * count[:, -1])
    return np.asarray((count > chosen[:, None]).argmax(axis=1), np.int64)
