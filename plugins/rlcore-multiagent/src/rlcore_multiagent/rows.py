"""Rows: what a poll hands over of one group of agents, gathered copy by copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Array, Columns, map_columns, take
from rlcore.env import StepBatch
from rlcore_multiagent.stage import Ending
from rlcore_multiagent.values import Misfit, ObservationWriter


class Rows:
    """Gathers rows by key, ``slot * agents + agent``, in any order; hands them over by slot and then by agent."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.observations: list[Any] = []
        self.first: list[bool] = []
        self.asked_at: list[int] = []
        self.ended: list[int] = []
        self.endings: list[Ending] = []
        self.ended_at: list[int] = []
        #: Agents of games that were lost.
        self.lost: list[int] = []
        #: By key, what was earned since the agent's last row.
        self.rewards: dict[int, float] = {}

    def ask(self, key: int, obs: Any, first: bool, env_step: int) -> None:
        """The agent is to act upon ``obs``."""
        self.asked.append(key)
        self.observations.append(obs)
        self.first.append(first)
        self.asked_at.append(env_step)

    def end(self, key: int, ending: Ending, env_step: int) -> None:
        """The agent's episode has ended."""
        self.ended.append(key)
        self.endings.append(ending)
        self.ended_at.append(env_step)

    def lose(self, keys: Sequence[int]) -> None:
        """The game of the agents ``keys`` was lost: nothing that was entered of it in this move has happened."""
        self.lost += keys
        kept = [i for i, key in enumerate(self.ended) if key not in keys]
        self.ended, self.endings = [self.ended[i] for i in kept], [self.endings[i] for i in kept]
        self.ended_at = [self.ended_at[i] for i in kept]
        for key in keys:
            self.rewards.pop(key, None)


class RowMaker:
    """Makes StepBatches of rows of one group, whose ids are ``ids`` by agent number."""

    def __init__(self, space: gymnasium.Space[Any], ids: Array) -> None:
        self._write = ObservationWriter(space)
        self._ids = ids
        #: An observation of nothing but zeros, for rows that ended.
        self._nothing = map_columns(lambda one: np.zeros_like(one[None]), take(self._write([_zeros(space)]), 0))

    def __call__(self, rows: Rows, over: NDArray[np.bool_]) -> StepBatch:
        """``over``: by slot, whether its episode is. ``Misfit``, whose ``row`` is a key, for a wrong observation."""
        agents = len(self._ids)
        asked, ended = np.array(rows.asked, np.int64), np.array(rows.ended, np.int64)
        lost = np.array(rows.lost, np.int64)
        keys = np.unique(np.concatenate([asked, ended, lost]))
        order, ended_order = np.argsort(asked), np.argsort(ended)
        at, ended_places = np.searchsorted(keys, asked[order]), np.searchsorted(keys, ended[ended_order])
        flags = {name: np.zeros(len(keys), np.bool_) for name in ("terminated", "truncated", "first", "needs_action")}
        env_step = np.zeros(len(keys), np.int64)
        env_step[ended_places] = np.array(rows.ended_at, np.int64)[ended_order]
        env_step[at] = np.array(rows.asked_at, np.int64)[order]
        # Whoever is not asked in the game that has taken its place has a row as well: its last action did not happen.
        flags["first"][np.searchsorted(keys, lost)] = True
        flags["needs_action"][at] = True
        flags["first"][at] = np.array(rows.first, np.bool_)[order]
        terminated = np.array([ending.terminated for ending in rows.endings], np.bool_)[ended_order]
        flags["terminated"][ended_places] = terminated
        flags["truncated"][ended_places] = ~terminated
        reward = np.array([rows.rewards.get(key, 0.0) for key in keys.tolist()], np.float32)
        slot = keys // agents
        return StepBatch(
            slot=slot,
            agent_id=self._ids[keys % agents],
            reward=reward,
            final_obs=self._columns([rows.endings[i].obs for i in ended_order.tolist()], rows.ended, ended_order),
            obs=self._spread([rows.observations[i] for i in order.tolist()], rows.asked, order, at, len(keys)),
            env_step=env_step,
            episode_over=over[slot],
            **flags,
        )

    def columns(self, observations: Sequence[Any]) -> Columns:
        """Observations of the group ``[n, ...]``. ``Misfit`` for one that is not of its space."""
        return self._write(observations)

    def _columns(self, observations: list[Any], keys: list[int], order: NDArray[np.int64]) -> Columns:
        if not observations:
            return take(self._nothing, slice(0, 0))
        try:
            return self._write(observations)
        except Misfit as misfit:
            raise Misfit(keys[int(order[misfit.row])], misfit.problem) from None

    def _spread(
        self, observations: list[Any], keys: list[int], order: NDArray[np.int64], at: NDArray[np.int64], count: int
    ) -> Columns:
        """The observations at ``at`` of ``count`` rows, nothing in the others."""
        columns = self._columns(observations, keys, order)
        if len(at) == count:
            return columns

        def spread(column: Array) -> Array:
            wide = np.zeros((count, *column.shape[1:]), column.dtype)
            wide[at] = column
            return wide

        return map_columns(spread, columns)


def _zeros(space: gymnasium.Space[Any]) -> Any:
    if isinstance(space, gymnasium.spaces.Dict):
        return {key: _zeros(child) for key, child in space.spaces.items()}
    if isinstance(space, gymnasium.spaces.Tuple):
        return tuple(_zeros(child) for child in space.spaces)
    return np.zeros(space.shape or (), space.dtype)
