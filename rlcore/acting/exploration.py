"""How far policies explore that do not draw from a distribution: rates that follow a schedule, and epsilon-greedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlcore.batch import LAST_STATE, STATE_IN, SampleBatch
from rlcore.errors import UserError
from rlcore.policy_graph import ActRows, State
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


class ActionNoise:
    """Normal noise ``[n, size]`` of deviation 1. With a ``correlation`` above 0 that of one step and the next in an
    episode are so correlated; the last one is then the state of acting (Eberhard et al. 2023 compare such noise)."""

    def __init__(self, correlation: float, size: int) -> None:
        self._correlation = np.float32(correlation)
        self._fresh = np.float32(np.sqrt(1.0 - correlation**2))
        self._size = size

    @property
    def state_parts(self) -> int:
        """The number of parts of the state."""
        return int(self._correlation > 0.0)

    def initial_state(self, n: int) -> State:
        """Zeros, ``()`` without correlation."""
        return (np.zeros((n, self._size), np.float32),) if self._correlation else ()

    def draw(self, n: int, state: State, rng: np.random.Generator) -> tuple[NDArray[np.float32], State]:
        """The noise of ``n`` rows, and the state after it."""
        noise = rng.standard_normal((n, self._size), np.float32)
        if not self._correlation:
            return noise, ()
        noise *= self._fresh
        noise += self._correlation * state[0]
        return noise, (noise,)

    def without_states(self, batch: SampleBatch) -> SampleBatch:
        """``batch`` without the states of noise, which nothing is learnt from."""
        if not self._correlation:
            return batch
        prefixes = (f"{STATE_IN}.", f"{LAST_STATE}.")
        return SampleBatch(batch.rows, {name: cut for name, cut in batch.cuts.items() if not name.startswith(prefixes)})


def uniform(normal: NDArray[np.float32]) -> NDArray[np.float32]:
    """Numbers spread evenly from -1 to 1, to 1e-3, from normal ones: tanh(sqrt(2 / pi) (x + 0.044715 x^3)), an
    approximation of twice the normal distribution function less 1 (Hendrycks & Gimpel 2016)."""
    x = normal.astype(np.float64)
    return np.asarray(np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)), np.float32)


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
    best, explores = greedy(q, allowed), np.less(rng.random(n), epsilon)
    if not explores.any():
        return best
    anything = rng.integers(actions, size=n) if allowed is None else _any_of(allowed, rng)
    return np.where(explores, anything, best)


def _any_of(allowed: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    count = np.cumsum(allowed, axis=1)
    chosen = np.floor(rng.random(len(allowed)) * count[:, -1])
    return np.asarray((count > chosen[:, None]).argmax(axis=1), np.int64)
