"""Hindsight experience replay (Andrychowicz et al. 2017): what was reached is learnt from as if it had been the goal.

Observations are dictionaries with ``achieved_goal`` and ``desired_goal``, as Gymnasium-Robotics has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import (
    BOOTSTRAP,
    DISCOUNTS,
    EPS_ID,
    LAST_OBS,
    LENGTH,
    OBS,
    PRIORITIES,
    REWARDS,
    STEPS,
    TERMINATED,
    TRUNCATED,
    SampleBatch,
)
from rlcore.errors import BatchError
from rlcore.returns import as_transitions
from rlcore.sampling.held_back import join
from rlcore_replay.buffer import ReplayBuffer
from rlcore_replay.priorities import EPSILON
from rlcore_replay.ring import Indexes

Int64 = NDArray[np.int64]

#: ``f(achieved goals [n, ...], desired goals [n, ...]) -> [n]``: rewards, or whether episodes terminate.
GoalFunction = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]

ACHIEVED, DESIRED = "achieved_goal", "desired_goal"


class Strategy(Enum):
    """Which outcomes of an episode become goals: the last one, or any from the transition itself on (section 4.5)."""

    FINAL = "final"
    FUTURE = "future"


@dataclass(frozen=True)
class Hindsight:
    """``reward`` says what reaching one goal is worth where another was desired; ``goals`` is how many a transition
    is told again with (of ``FINAL`` there is one).

    ``terminated`` says where an episode would have ended; without it the flags stay as they were. ``gamma`` is the
    discount of a step.
    """

    reward: GoalFunction
    strategy: Strategy = Strategy.FUTURE
    goals: int = 4
    terminated: GoalFunction | None = None
    gamma: float = 0.99


def choose_goals(lengths: Int64, strategy: Strategy, goals: int, rng: np.random.Generator) -> tuple[Int64, Int64]:
    """For episodes of ``lengths``, whose rows lie one behind the other: which rows are told again, and for each the
    row whose outcome is its goal, both int64 ``[m]``."""
    rows = np.arange(int(lengths.sum()))
    last = np.repeat(np.cumsum(lengths) - 1, lengths)
    if strategy is Strategy.FINAL:
        return rows, last
    rows, last = np.repeat(rows, goals), np.repeat(last, goals)
    return rows, rng.integers(rows, last + 1)


def relabel(episodes: SampleBatch, hindsight: Hindsight, rng: np.random.Generator) -> SampleBatch:
    """The transitions of whole episodes, told again with outcomes of theirs as goals; those told are not among them.

    A pure function of its arguments. Raises ``BatchError`` where observations have no goals, rewards are sums over
    several steps, or ``reward`` gives something else than a finite number a row.
    """
    achieved_name, desired_name = f"{LAST_OBS}.{ACHIEVED}", f"{LAST_OBS}.{DESIRED}"
    missing = sorted({achieved_name, desired_name} - episodes.cuts.keys())
    if missing:
        raise BatchError(f"hindsight needs observations with goals; there is no {', '.join(missing)}")
    if STEPS in episodes and (episodes[STEPS] > 1).any():
        raise BatchError("hindsight needs rewards of single steps; set policy.n_step to 1")
    rows, outcome = choose_goals(episodes.cuts[LENGTH], hindsight.strategy, hindsight.goals, rng)
    transitions = as_transitions(episodes)
    goal = transitions.cuts[achieved_name][outcome]
    again = transitions.take_pieces(rows)
    achieved = again.cuts[achieved_name]
    desired = goal.astype(again.cuts[desired_name].dtype, copy=False)
    rewards = np.asarray(hindsight.reward(achieved, desired), np.float32)
    if rewards.shape != (len(rows),) or not np.isfinite(rewards).all():
        raise BatchError(
            f"the reward of {len(rows)} goals is to be as many finite numbers, got {rewards.dtype} of shape "
            f"{rewards.shape}"
        )
    again.rows.pop(PRIORITIES, None)
    again = again.with_rows(**{REWARDS: rewards, f"{OBS}.{DESIRED}": desired}).with_cuts(**{desired_name: desired})
    if hindsight.terminated is None:
        return again
    ends = np.asarray(hindsight.terminated(achieved, desired), np.bool_)
    if DISCOUNTS in again:
        again.rows[DISCOUNTS] = np.where(ends, 0.0, hindsight.gamma).astype(np.float32)
    return again.with_rows(**{TERMINATED: ends}).with_cuts(**{BOOTSTRAP: ~ends})


class HindsightBuffer(ReplayBuffer):
    """A replay buffer that stores every transition, and once its episode is over stores it again with other goals.

    Of ``capacity`` transitions most are told again, ``goals`` for each that happened. Rows of episodes that go on are
    held beside, the last ``capacity`` of them.
    """

    def __init__(
        self,
        capacity: int,
        hindsight: Hindsight,
        rng: np.random.Generator,
        *,
        alpha: float | None = None,
        epsilon: float = EPSILON,
    ) -> None:
        super().__init__(capacity, alpha=alpha, epsilon=epsilon)
        self._hindsight = hindsight
        self._rng = rng
        self._held: SampleBatch | None = None

    def add(self, batch: SampleBatch) -> Indexes:
        """Stores the rows of ``batch``, and those of episodes that it ends again; the indexes of all of them."""
        stored = [super().add(batch)]
        over = self._ended_by(batch)
        if over is not None:
            stored.append(super().add(relabel(over, self._hindsight, self._rng)))
        return np.concatenate(stored)[-self.capacity :]

    def _ended_by(self, batch: SampleBatch) -> SampleBatch | None:
        """The episodes that ``batch`` ends, whole; the others are held."""
        both = join(self._held, batch)
        last = both.last_rows()
        ended = both[TERMINATED][last] | both[TRUNCATED][last]
        going_on = np.flatnonzero(~ended)
        # Of episodes that nobody goes on with the oldest are forgotten.
        sizes = both.cuts[LENGTH][going_on]
        newest = np.argsort(both.cuts[EPS_ID][going_on], kind="stable")[::-1]
        fits = newest[np.cumsum(sizes[newest]) <= self.capacity]
        self._held = both.take_pieces(going_on[np.sort(fits)]) if len(fits) else None
        return both.take_pieces(np.flatnonzero(ended)) if ended.any() else None

    def _own_state(self) -> dict[str, Any]:
        held = None if self._held is None else {"rows": dict(self._held.rows), "cuts": dict(self._held.cuts)}
        return {**super()._own_state(), "held": held, "rng": self._rng.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        held = state["held"]
        self._held = None if held is None else SampleBatch(held["rows"], held["cuts"])
        self._rng.bit_generator.state = state["rng"]


__all__ = ["GoalFunction", "Hindsight", "HindsightBuffer", "Strategy", "choose_goals", "relabel"]
