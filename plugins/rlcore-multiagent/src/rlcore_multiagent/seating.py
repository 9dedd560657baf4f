"""Seating: which agent sits in which seat of a game."""

from __future__ import annotations

import numpy as np

from rlcore_multiagent.groups import Members


class Seating:
    """Each agent sits in the seat of its own number, or where shuffling within its group puts it."""

    def __init__(self, num_slots: int, members: Members, shuffles: bool) -> None:
        self._members, self._shuffles = members, shuffles
        own = list(range(sum(map(len, members.values()))))
        #: By slot, who sits in each seat of the game, and where each agent sits.
        self.sitting = [own] * num_slots
        self.seat_of = [own] * num_slots

    def deal(self, slot: int, seed: int) -> None:
        """An episode with this seed begins in ``slot``."""
        if not self._shuffles:
            return
        rng, sitting = np.random.default_rng(seed), list(self.sitting[slot])
        seat_of = list(sitting)
        for members in self._members.values():
            for seat, agent in zip(members.tolist(), rng.permutation(members).tolist(), strict=True):
                sitting[seat], seat_of[agent] = agent, seat
        self.sitting[slot], self.seat_of[slot] = sitting, seat_of
