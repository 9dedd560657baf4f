"""Seats: which of the two players of a game each of its agents is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore_batched.noise import Bits, below
from rlcore_batched.simulator import SimulatorSettings

PLAYERS = 2

#: Which draw of an episode's seed decides who sits where. Games take theirs from 0 on.
_DEALING = 1 << 32


class GameSettings(SimulatorSettings):
    """What games for two take. ``shuffle_seats``: the agents take each other's places, drawn anew for each episode."""

    shuffle_seats: bool = False


class Seats:
    """Agents 0 and 1 are players 0 and 1, or the other way round in the slots where shuffling has it so."""

    def __init__(self, num_slots: int, settings: GameSettings) -> None:
        self._shuffles = settings.shuffle_seats
        #: ``[slots, 2]``: by agent, which player it is. Of two it is as well by player, which agent that is.
        self.of = np.tile(np.arange(PLAYERS), (num_slots, 1))

    def deal(self, index: NDArray[np.int64], seeds: Bits) -> None:
        """Episodes with these seeds begin in the slots ``index``."""
        if self._shuffles:
            self.of[index] = below(seeds, _DEALING, PLAYERS)[:, None] ^ np.arange(PLAYERS)

    def exchanged(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values ``[slots, 2, ...]`` that are sorted by agent sorted by player, or the other way round."""
        return values[np.arange(len(values))[:, None], self.of] if self._shuffles else values
