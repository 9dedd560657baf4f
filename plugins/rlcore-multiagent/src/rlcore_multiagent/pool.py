"""Pool: past policies to play against, how often each was beaten, and which one is next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rlcore.policy_graph import Weights


@dataclass(frozen=True)
class Record:
    """Games of the learning policy against one past policy, from the learning one's side."""

    #: Environment steps of the run when the past policy was kept.
    env_steps: int
    wins: float = 0.0
    draws: float = 0.0
    losses: float = 0.0

    @property
    def games(self) -> float:
        """How many games."""
        return self.wins + self.draws + self.losses

    @property
    def win_rate(self) -> float:
        """Wins, and half of the draws, among all games; a half where none was played."""
        return (self.wins + 0.5 * self.draws) / self.games if self.games else 0.5

    def after(self, outcome: float, memory: float) -> Record:
        """With one more game, won (above 0), drawn or lost; each counts ``memory`` times the one after it."""
        return replace(
            self,
            wins=memory * self.wins + (outcome > 0),
            draws=memory * self.draws + (outcome == 0),
            losses=memory * self.losses + (outcome < 0),
        )


class Pool:
    """Holds at most ``size`` past policies; the one that is beaten most often goes first.

    The next opponent is drawn with weight ``(1 - win rate) ** power``: those that are hard to beat are met more often
    (prioritised fictitious self-play; Vinyals et al. 2019). Power 0 draws all alike.
    """

    #: No opponent is drawn with less weight than this.
    LEAST = 0.02
    #: How much a game counts beside the one after it: the last hundred or so decide.
    MEMORY = 0.99

    def __init__(self, size: int, power: float) -> None:
        self._size = size
        self._power = power
        self.records: list[Record] = []
        self._weights: list[Weights] = []

    def add(self, weights: Weights, env_steps: int) -> None:
        """Keeps a policy; where there is no room the easiest one goes."""
        self.records.append(Record(env_steps))
        self._weights.append({name: np.array(array) for name, array in weights.items()})
        if len(self.records) > self._size:
            easiest = int(np.argmax([record.win_rate for record in self.records[:-1]]))
            del self.records[easiest], self._weights[easiest]

    def draw(self, rng: np.random.Generator) -> int:
        """The number of the next opponent."""
        weights = np.array([max(1.0 - record.win_rate, self.LEAST) ** self._power for record in self.records])
        return int(rng.choice(len(weights), p=weights / weights.sum()))

    def weights(self, number: int) -> Weights:
        """Those of a policy."""
        return self._weights[number]

    def note(self, env_steps: int, outcome: float) -> None:
        """A game against the policy of that age, if it is still here."""
        self.records = [
            record.after(outcome, self.MEMORY) if record.env_steps == env_steps else record for record in self.records
        ]

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on."""
        return {
            "records": [[r.env_steps, r.wins, r.draws, r.losses] for r in self.records],
            "weights": {str(i): dict(weights) for i, weights in enumerate(self._weights)},
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from ``get_state``'s tree."""
        self.records = [Record(int(steps), *map(float, counts)) for steps, *counts in state["records"]]
        self._weights = [
            {name: np.array(array) for name, array in state["weights"][str(i)].items()}
            for i in range(len(self.records))
        ]
