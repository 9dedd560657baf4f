"""Mistakes: how often a policy gives something away where the right moves are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlcore.columns import length, take
from rlcore.model import BatchedModel, Solved
from rlcore.tree_search.leaves import Predict
from rlcore.tree_search.players import NetworkPlayer, Player, network_search_player
from rlcore.tree_search.settings import SearchConfig

#: With how many simulations the search is judged.
SIMULATIONS = 50
#: Positions that are searched at once.
AT_ONCE = 1024


@dataclass(frozen=True)
class Mistakes:
    """Shares of the positions in which the chosen move loses game value: with a search of 50 simulations without noise
    and proofs, and with the network alone."""

    mistakes: float
    network_mistakes: float


def mistakes_of(model: BatchedModel, predict: Predict, search: SearchConfig) -> Mistakes | None:
    """Of a policy with that network in all positions that the model's ``solved`` gives; None where it gives none.

    Of ``search`` how much it explores and what it looks at together hold here as well.
    """
    solved = model.solved()
    return None if solved is None else _judged(model, predict, search, solved)


def mistakes_by_part(model: BatchedModel, predict: Predict, search: SearchConfig) -> dict[str, Mistakes]:
    """The same of each part that the model's ``solved`` names; none where it gives none."""
    solved = model.solved()
    if solved is None:
        return {}
    return {name: _judged(model, predict, search, solved.part(name)) for name in solved.parts}


def _judged(model: BatchedModel, predict: Predict, search: SearchConfig, solved: Solved) -> Mistakes:
    judged = search.model_copy(update={"simulations": SIMULATIONS, "solver": False, "reuse": False, "leaves": 1})
    searching = network_search_player(model, predict, judged)
    return Mistakes(mistake_rate(searching, solved), mistake_rate(NetworkPlayer(model, predict), solved))


def mistake_rate(player: Player, solved: Solved) -> float:
    """The share of the positions in which it chooses a move that is not among the best."""
    rng = np.random.default_rng(0)
    n, wrong = length(solved.states), 0
    for start in range(0, n, AT_ONCE):
        rows = np.arange(start, min(n, start + AT_ONCE))
        player.begin()
        chosen = player.moves(take(solved.states, rows), rows, rng)
        wrong += int((~solved.best[rows, chosen]).sum())
    return wrong / n
