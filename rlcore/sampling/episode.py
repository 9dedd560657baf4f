"""Finished episodes, and the running sums they are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Episode:
    """One finished episode of one environment slot: the sum of all agents' rewards, and its environment steps."""

    eps_id: int
    slot: int
    episode_return: float
    length: int
    policy_returns: Mapping[str, float] = field(default_factory=dict)


class EpisodeBook:
    """Which episode each slot is in, and what it has brought so far.

    The k-th episode of slot ``s`` of evaluator ``index`` has the id ``(k * slots + s) + index * 2**40 + life * 2**54``:
    unique in a run, whatever order slots finish in. ``life`` is how often the evaluator has been replaced, modulo 512.
    """

    def __init__(self, slots: int, index: int) -> None:
        self._index = index
        self._slots = slots
        self.life = 0
        self.number = np.zeros(slots, np.int64)
        self.length = np.zeros(slots, np.int64)
        self.returns: dict[str, Any] = {}

    def eps_id(self, slot: Any, number: Any) -> Any:
        """The id of episode ``number`` of ``slot``, elementwise."""
        return np.asarray(number * self._slots + slot + (self._index << 40) + (self.life % 512 << 54), np.int64)

    def add(self, policy_id: str, slots: Any, rewards: Any, steps: int = 0) -> None:
        """Adds rewards to the slots' episodes, several rows may be of one slot, and so many environment steps a row."""
        if policy_id not in self.returns:
            self.returns[policy_id] = np.zeros(self._slots, np.float64)
        np.add.at(self.returns[policy_id], slots, rewards)
        if steps:
            np.add.at(self.length, slots, steps)

    def finish(self, slot: int) -> Episode:
        """Closes the running episode of ``slot`` and opens the next."""
        by_policy = {policy_id: float(sums[slot]) for policy_id, sums in self.returns.items()}
        episode = Episode(
            int(self.eps_id(slot, self.number[slot])),
            slot,
            sum(by_policy.values()),
            int(self.length[slot]),
            by_policy,
        )
        self.number[slot] += 1
        self.abandon(slot)
        return episode

    def break_off(self, slot: int) -> int:
        """Opens the next episode of ``slot``, though the running one did not end; the id of that."""
        broken = int(self.eps_id(slot, self.number[slot]))
        self.number[slot] += 1
        self.abandon(slot)
        return broken

    def settle(
        self, policy_id: str, slots: Any, sums: Any, steps: Any, ended: Any, order: Any
    ) -> list[Episode]:
        """Adds pieces, which lie slot by slot in time order, of an environment with one policy.

        By piece: its slot, the sum of its rewards, its steps, whether it is the last of its episode. The episodes of
        the pieces ``order``, which are among the last ones, in that order.
        """
        running = self.returns.setdefault(policy_id, np.zeros(self._slots, np.float64))
        if len(slots) == self._slots and not ended.any():
            # Each slot has one piece, and its episode goes on.
            running += sums
            self.length += steps
            return []
        opens = np.ones(len(slots), np.bool_)
        opens[1:] = slots[1:] != slots[:-1]
        first = np.flatnonzero(opens)
        # A slot's first piece goes on with what the book holds of its episode, later ones begin episodes.
        returns, lengths = sums.copy(), steps.copy()
        returns[first] += running[slots[first]]
        lengths[first] += self.length[slots[first]]
        rank = np.arange(len(slots)) - np.repeat(first, np.diff(first, append=len(slots)))
        ids = self.eps_id(slots, self.number[slots] + rank)
        columns = (column[order].tolist() for column in (ids, slots, returns, lengths))
        episodes = [
            Episode(eps_id, slot, total, length, {policy_id: total})
            for eps_id, slot, total, length in zip(*columns, strict=True)
        ]
        last = np.append(first[1:], len(slots)) - 1
        goes_on = ~ended[last]
        running[slots[last]] = np.where(goes_on, returns[last], 0.0)
        self.length[slots[last]] = np.where(goes_on, lengths[last], 0)
        self.number += np.bincount(slots[ended], minlength=self._slots)
        return episodes

    def abandon(self, slot: int) -> None:
        """Forgets what the running episode of ``slot`` has brought."""
        self.length[slot] = 0
        for sums in self.returns.values():
            sums[slot] = 0.0

    def restart(self) -> None:
        """Every slot begins a new episode, finished or not."""
        self.number += 1
        self.length[:] = 0
        for sums in self.returns.values():
            sums[:] = 0.0

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on."""
        returns = {policy_id: sums.copy() for policy_id, sums in self.returns.items()}
        return {"number": self.number.copy(), "length": self.length.copy(), "returns": returns, "life": self.life}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree."""
        self.life = int(state["life"])
        self.number = np.array(state["number"])
        self.length = np.array(state["length"])
        self.returns = {policy_id: np.array(sums) for policy_id, sums in state["returns"].items()}
