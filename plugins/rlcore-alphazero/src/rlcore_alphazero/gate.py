"""The gate: matches between the candidate and the best player, and what is kept of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rlcore.tree_search.matches import Games, MatchScore


class Match(NamedTuple):
    """A candidate's match after so many environment steps: the score, whether it was accepted, and the games."""

    env_steps: int
    score: MatchScore
    accepted: bool
    games: Games

    def to_tree(self) -> dict[str, Any]:
        """As checkpoints have it."""
        return {
            "env_steps": self.env_steps,
            "score": list(self.score),
            "accepted": self.accepted,
            "games": {name: np.asarray(array) for name, array in self.games._asdict().items()},
        }

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Match:
        """The inverse of ``to_tree``."""
        score = MatchScore(*(int(number) for number in tree["score"]))
        games = Games(**{name: np.asarray(array) for name, array in tree["games"].items()})
        return cls(int(tree["env_steps"]), score, bool(tree["accepted"]), games)


def joined(games: list[Games]) -> Games:
    """Those that several candidate evaluators have played, as one."""
    plies = max(one.moves.shape[1] for one in games)
    moves = [np.pad(one.moves, ((0, 0), (0, plies - one.moves.shape[1])), constant_values=-1) for one in games]
    returns, seats = [one.returns for one in games], [one.seats for one in games]
    return Games(np.concatenate(moves), np.concatenate(returns), np.concatenate(seats))
