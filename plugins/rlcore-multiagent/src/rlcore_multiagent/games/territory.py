"""Territory: two teams of two, each agent chooses a field, and a field is taken by the team with more agents on it."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from rlcore_multiagent.games.simultaneous import Moved, SimultaneousGame

FIELDS = 3
AGENTS = ("red_0", "red_1", "blue_0", "blue_1")


class Territory(SimultaneousGame):
    """Two teams, ``red_0 red_1`` and ``blue_0 blue_1``, choose among three fields in each of ``length`` steps.

    The fields' values, drawn anew for each step, are seen by all. A field pays its value to the team with more agents
    on it, and takes as much from the other; where both have as many it pays nothing. A team is paid as one.

    Observations, float32 ``[7]``: the three values; whether this agent is the first or the second of its team; the
    fields that its own team and the other one prefer by habit, as the share of the last steps in which the most
    valuable one was held.
    """

    def __init__(self, num_envs: int = 1, length: int = 8) -> None:
        if length < 1:
            raise ValueError(f"Territory: length is 1 or more, not {length}")
        super().__init__(num_envs, AGENTS, (Box(0.0, 1.0, (7,), np.float32), Discrete(FIELDS)))
        self._length = length
        self.games = {
            "t": np.zeros(num_envs, np.int64),
            "values": np.zeros((num_envs, FIELDS), np.float64),
            "held": np.zeros((num_envs, 2), np.float64),
        }

    def begin(self, slots: NDArray[np.int64]) -> None:
        self.games["t"][slots] = 0
        self.games["values"][slots] = self.rng.uniform(size=(len(slots), FIELDS))
        self.games["held"][slots] = 0.0

    def move(self, actions: NDArray[np.int64]) -> Moved:
        games, every = self.games, np.arange(self.num_slots)
        counts = (actions[:, :, None] == np.arange(FIELDS)).reshape(self.num_slots, 2, 2, FIELDS).sum(2)
        lead = np.sign(counts[:, 0] - counts[:, 1])
        won = (lead * games["values"]).sum(1)
        best = games["values"].argmax(1)
        games["held"] = 0.5 * games["held"] + 0.5 * (counts[every, :, best] > 0)
        games["t"] += 1
        games["values"] = self.rng.uniform(size=(self.num_slots, FIELDS))
        over = games["t"] >= self._length
        rewards = np.stack([won, won, -won, -won], axis=1).astype(np.float32)
        return Moved(rewards, over, np.zeros_like(over))

    def observe(self) -> NDArray[np.float32]:
        seen = np.zeros((self.num_slots, 4, 7), np.float32)
        seen[:, :, :FIELDS] = self.games["values"][:, None]
        seen[:, (0, 2), 3] = 1.0
        seen[:, (1, 3), 4] = 1.0
        for agent in range(4):
            own = agent // 2
            seen[:, agent, 5], seen[:, agent, 6] = self.games["held"][:, own], self.games["held"][:, 1 - own]
        return seen
