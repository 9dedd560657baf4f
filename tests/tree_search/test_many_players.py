"""Three players at a table: what a network says of each goes up the tree to each, and what each learns from."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from support.small_games import TableGame

from rlcore.acting.architecture import Architecture
from rlcore.acting.model_config import ModelConfig
from rlcore.batch import SampleBatch
from rlcore.columns import Columns
from rlcore.tree_search import Predictions, Search, SearchConfig, Trees
from rlcore.tree_search.actor import SearchActor
from rlcore.tree_search.leaves import seated
from rlcore.tree_search.outcomes import outcomes
from rlcore.tree_search.tree_planner import SEARCH_PLAYER

#: 0 chooses between the nodes of 1 and of 2, each of which chooses between two ends.
ROUND = TableGame(
    3,
    {
        0: (0, {0: (1, (0.0, 0.0, 0.0)), 1: (2, (0.0, 0.0, 0.0))}),
        1: (1, {0: (3, (1.0, -1.0, 0.0)), 1: (4, (-1.0, 1.0, 0.0))}),
        2: (2, {0: (5, (1.0, 0.0, -1.0)), 1: (6, (0.0, 0.0, 0.0))}),
    },
)
#: By node what the network says of who moves, of the next, and of the one after.
SAID = {0: (0.1, 0.2, 0.3), 1: (0.4, -0.5, 0.6), 2: (0.7, 0.8, -0.9)}


def said(obs: Columns) -> tuple[np.ndarray, np.ndarray]:
    assert not isinstance(obs, dict)
    return np.zeros((len(obs), 2), np.float32), np.array([SAID[node] for (node,) in obs.tolist()], np.float32)


def test_values_are_given_to_those_whose_they_are() -> None:
    found = seated(np.array([[1, 2, 3], [1, 2, 3], [1, 2, 3]], np.float32), np.array([0, 1, 2]))
    np.testing.assert_array_equal(found, [[1, 2, 3], [3, 1, 2], [2, 3, 1]])


def test_a_tree_of_three_simulations_by_hand() -> None:
    rng = np.random.default_rng(0)
    trees = Trees(ROUND, ROUND.initial(1, rng), 10)
    search = Search(trees, Predictions(ROUND, said), SearchConfig(c_puct=1.0, solver=False))
    search.open_roots(rng)
    search.run(1, rng)
    # The first goes to node 1, where player 1 moves: it has 0.4, player 2 -0.5, and player 0 0.6.
    root = trees.roots[0]
    assert trees.edge_visits[root, :2].tolist() == [1.0, 0.0]
    assert trees.total[root, :2].tolist() == pytest.approx([0.6, 0.0])
    search.run(1, rng)
    # 0.6 + 0.5 * sqrt(2) / 2 = 0.954 against 0.5 * sqrt(2) = 0.707: to node 1 again, and there to the end 3, as edges
    # are alike. Player 1 loses one by it, player 0 wins one.
    first = trees.child[root, 0]
    assert trees.total[first, :2].tolist() == pytest.approx([-1.0, 0.0])
    assert trees.total[root, :2].tolist() == pytest.approx([1.6, 0.0])
    search.run(1, rng)
    # 0.8 + 0.5 * sqrt(3) / 3 = 1.089 against 0.5 * sqrt(3) = 0.866: node 1, whose other end is better for player 1.
    assert trees.edge_visits[first, :2].tolist() == [1.0, 1.0]
    assert trees.total[first, :2].tolist() == pytest.approx([-1.0, 1.0])
    assert trees.total[root, :2].tolist() == pytest.approx([0.6, 0.0])
    search.run(1, rng)
    # 0.2 + 0.5 * 2 / 4 = 0.45 against 0.5 * 2 = 1: node 2, where player 2 moves: to player 0 it is worth 0.8.
    assert trees.total[root, :2].tolist() == pytest.approx([0.6, 0.8])


def test_a_network_that_values_the_mover_alone_shares_the_loss() -> None:
    predictions = Predictions(ROUND, lambda obs: (said(obs)[0], said(obs)[1][:, 0]))
    states = np.array([[0], [2]])
    _, values = predictions.evaluate(states, ROUND.legal(states), np.array([0, 2]), np.random.default_rng(0))
    np.testing.assert_allclose(values, [[0.1, -0.05, -0.05], [-0.35, -0.35, 0.7]], atol=1e-7)


def table(**columns: list[float]) -> SampleBatch:
    """Two games. In slot 0 players 0, 1, 2 and 0 move, and the game ends; in slot 1 players 2 and 0 do, and it goes
    on."""
    rows = {
        # By piece: slot 0 of players 0 (two rows), 1 and 2, slot 1 of players 2 and 0.
        "obs": np.zeros((6, 1), np.float32),
        "search_player": np.array([0, 0, 1, 2, 2, 0]),
        "env_step": np.array([0, 3, 1, 2, 5, 6]),
        "rewards": np.array([0.0, 1.0, -0.25, -0.75, 0.0, 0.0], np.float32),
        "search_value": np.array([0.3, 0.9, 0.1, 0.2, -0.4, 0.6], np.float32),
        "search_proven": np.array([False, True, False, False, False, False]),
    }
    cuts = {
        "start": np.array([0, 2, 3, 4, 5]),
        "length": np.array([2, 1, 1, 1, 1]),
        "slot": np.array([0, 0, 0, 1, 1]),
        "eps_id": np.array([7, 7, 7, 7, 7]),
        "bootstrap": np.array([False, False, False, True, True]),
    }
    return SampleBatch(rows, cuts)


def test_each_learns_what_all_get() -> None:
    found = outcomes(table(), gamma=1.0, search_value_share=0.0, players=3)["value_targets"]
    assert found.dtype == np.float32
    np.testing.assert_allclose(
        found,
        [
            [1.0, -0.25, -0.75],  # player 0, then 1, then 2, who are yet to move
            [0.9, -0.25, -0.75],  # its own is proven
            [-0.25, -0.75, 1.0],  # player 1, then 2, then 0
            [-0.75, 1.0, -0.25],  # player 2, then 0, then 1
            [-0.4, 0.6, 0.2],  # player 2, player 0 as its search says, and nothing is known of player 1
            [0.6, -0.3, -0.4],  # player 0, nothing of player 1, player 2
        ],
        atol=1e-7,
    )


def test_two_players_learn_what_the_mover_gets() -> None:
    found = outcomes(table(), gamma=1.0, search_value_share=0.5)["value_targets"]
    np.testing.assert_allclose(found, [0.65, 0.9, -0.075, -0.275, -0.4, 0.6], atol=1e-7)


def test_an_actor_values_all_players_and_says_who_moved() -> None:
    observed, model = Box(0, 6, (1,), np.int64), ModelConfig(hidden=(4,), shared_value=True)
    architecture = Architecture.of(observed, Discrete(2), model, value_outputs=3)
    assert architecture.shapes()["value.out.weight"] == (4, 3)
    weights = architecture.init(np.random.default_rng(0))
    actor = SearchActor(
        observed, Discrete(2), model, weights, rules=ROUND, search=SearchConfig(simulations=3, solver=False)
    )
    obs = np.array([[0], [2]])
    logits, values = actor.predict(obs)
    assert logits.shape == (2, 2) and values.shape == (2, 3)
    out = actor.act(obs, rng=np.random.default_rng(0))
    assert out.extras[SEARCH_PLAYER].tolist() == [0, 2]
