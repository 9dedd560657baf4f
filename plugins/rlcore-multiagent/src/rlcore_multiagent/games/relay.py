"""Relay: a cooperative game in which one agent acts and another sees what has come of it."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from rlcore_multiagent.games.simultaneous import Moved, SimultaneousGame

SENDER, WATCHER = 0, 1


class Relay(SimultaneousGame):
    """The sender is shown a cue, 0 or 1, in the first step, and should answer it with the action of that number.

    Whether it did shows on a lamp from then on, which the watcher alone sees. In the last of ``length`` steps the
    watcher should act as the lamp shines (1) or not (0). Both are paid then, half a point for each who did right: 2 in
    all for a game played well, 1.5 where the sender guesses. Chance moves points from one to the other besides, up to
    ``luck`` of them in either direction; how many is drawn as the game begins, and the watcher sees it.

    So nothing that the sender sees after its one action tells whether that was right, nor how lucky the game is: a
    critic that sees no more than the sender cannot say what its action was worth. One that sees what both see can, in
    the next step.

    Observations, float32 ``[6]``: the part of the game that is over; cue 0, cue 1 (the sender, in the first step); lamp
    on, lamp off, luck (the watcher). All numbers are 0 where one does not see them.
    """

    def __init__(self, num_envs: int = 1, length: int = 16, luck: float = 2.0) -> None:
        if length < 2 or luck < 0.0:
            raise ValueError(f"Relay: length is 2 or more and luck not negative, not {length} and {luck}")
        bound = max(1.0, luck)
        super().__init__(num_envs, ("sender", "watcher"), (Box(-bound, bound, (6,), np.float32), Discrete(2)))
        self._length, self._luck = length, luck
        self.games = {
            "t": np.zeros(num_envs, np.int64),
            "cue": np.zeros(num_envs, np.int64),
            "lamp": np.zeros(num_envs, np.int64),  # -1 before the sender has acted
            "luck": np.zeros(num_envs, np.float64),
        }

    def begin(self, slots: NDArray[np.int64]) -> None:
        games = self.games
        games["t"][slots] = 0
        games["cue"][slots] = self.rng.integers(2, size=len(slots))
        games["lamp"][slots] = -1
        games["luck"][slots] = self._luck * self.rng.uniform(-1.0, 1.0, len(slots))

    def move(self, actions: NDArray[np.int64]) -> Moved:
        games = self.games
        right = actions[:, SENDER] == games["cue"]
        games["lamp"] = np.where(games["t"] == 0, right, games["lamp"])
        games["t"] += 1
        over = games["t"] >= self._length
        answered = actions[:, WATCHER] == games["lamp"]
        earned = 0.5 * (games["lamp"] == 1) + 0.5 * answered
        paid = np.stack([earned + games["luck"], earned - games["luck"]], axis=1) * over[:, None]
        return Moved(paid.astype(np.float32), over, np.zeros_like(over))

    def observe(self) -> NDArray[np.float32]:
        games = self.games
        seen = np.zeros((self.num_slots, 2, 6), np.float32)
        seen[:, :, 0] = (games["t"] / self._length)[:, None]
        opening = games["t"] == 0
        for cue in (0, 1):
            seen[:, SENDER, 1 + cue] = opening & (games["cue"] == cue)
        seen[:, WATCHER, 3] = games["lamp"] == 1
        seen[:, WATCHER, 4] = games["lamp"] == 0
        seen[:, WATCHER, 5] = games["luck"]
        return seen
