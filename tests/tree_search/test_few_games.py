"""Few games are searched number by number, many by arrays: with the same results to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from support.small_games import Even, Nim, TableGame

from rlcore.model import BatchedModel
from rlcore.tree_search import Leaves, Playouts, Search, SearchConfig, Trees, few_games

#: One player, who can come back to where it was; and three, of whom two have moves to make.
ALONE = TableGame(
    1,
    {
        0: (0, {0: (1, (0.5,)), 1: (2, (0.25,))}),
        1: (0, {0: (3, (0.125,))}),
        2: (0, {0: (3, (1.0,)), 1: (0, (-0.1,))}),
    },
)
THREE = TableGame(
    3,
    {
        0: (0, {0: (1, (0.0, 0.0, 0.0)), 1: (2, (1.0, 0.0, 0.0))}),
        1: (1, {0: (3, (0.0, 1.0, -1.0)), 1: (4, (2.0, 0.0, 0.0))}),
    },
)


def grown(model: BatchedModel, leaves: Leaves, config: SearchConfig, games: int, discount: float) -> Trees:
    rng = np.random.default_rng(0)
    # Room for a part of the nodes: more is made on the way.
    trees = Trees(model, model.initial(games, rng), 10)
    search = Search(trees, leaves, config, discount)
    for _ in range(3):
        search.run(30, rng)
    return trees


@pytest.mark.parametrize("games", [1, 3])
@pytest.mark.parametrize("leaves", [1, 5])
@pytest.mark.parametrize("solver", [False, True])
@pytest.mark.parametrize(
    ("model", "judge", "discount"),
    [
        (Nim(17), Playouts(Nim(17)), 1.0),
        (Nim(9), Even(2), 1.0),
        (ALONE, Even(1, priors=(0.7, 0.3)), 0.9),
        (THREE, Even(3, priors=(0.4, 0.6)), 1.0),
    ],
)
def test_few_games_are_searched_as_many_are(
    monkeypatch: pytest.MonkeyPatch,
    model: BatchedModel,
    judge: Leaves,
    discount: float,
    games: int,
    leaves: int,
    solver: bool,
) -> None:
    config = SearchConfig(leaves=leaves, solver=solver, virtual_loss=0.7)
    few = grown(model, judge, config, games, discount)
    monkeypatch.setattr(few_games, "FEW", 0)
    many = grown(model, judge, config, games, discount)
    own, other = few.get_state(), many.get_state()
    assert few.count == many.count > games
    np.testing.assert_array_equal(own["states"], other["states"])
    for name, array in own["arrays"].items():
        np.testing.assert_array_equal(array, other["arrays"][name], err_msg=name)
