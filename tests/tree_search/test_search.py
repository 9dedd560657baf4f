"""The search: visits worked out by hand, whose values go up, what is proven, chance, and several players."""

from __future__ import annotations

import numpy as np
import pytest
from support.small_games import Even, Nim, PerfectNim, TableGame

from rlcore.columns import Columns
from rlcore.errors import SpaceError
from rlcore.model import BatchedModel
from rlcore.tree_search import Leaves, Playouts, Search, SearchConfig, Trees
from rlcore.tree_search.tree_planner import best_moves, found_in


def searched(
    model: BatchedModel, judge: Leaves, simulations: int, games: int = 1, **settings: float | bool
) -> tuple[Trees, Search]:
    rng = np.random.default_rng(0)
    trees = Trees(model, model.initial(games, rng), games * (simulations + 1))
    search = Search(trees, judge, SearchConfig(**{"solver": False, "c_puct": 1.0, **settings}))
    search.run(simulations, rng)
    return trees, search


#: One player; action 0 ends the game with nothing, action 1 with a half.
CHOICE = TableGame(1, {0: (0, {0: (1, (0.0,)), 1: (2, (0.5,))})})


def test_visits_match_puct_worked_out_by_hand() -> None:
    # With priors 0.6 and 0.4, c = 1 and 1 + n simulations through the root, the scores before each simulation are
    #   1: 0.600 0.400    2: 0.424 0.566    3: 0.520 0.846    4: 0.600 0.767
    #   5: 0.671 0.724    6: 0.735 0.696    7: 0.529 0.712    8: 0.566 0.689
    taken = [0, 1, 1, 1, 1, 0, 1, 1]
    rng = np.random.default_rng(0)
    trees = Trees(CHOICE, CHOICE.initial(1, rng), 20)
    search = Search(trees, Even(1, priors=(0.6, 0.4)), SearchConfig(c_puct=1.0, solver=False))
    visits = np.zeros(2)
    for action in taken:
        search.run(1, rng)
        visits[action] += 1
        np.testing.assert_array_equal(trees.edge_visits[trees.roots[0]], visits)
    assert visits.tolist() == [2, 6]
    assert trees.total[trees.roots[0]].tolist() == [0.0, 3.0]
    assert trees.visits[trees.roots[0]] == 9


def test_games_side_by_side_are_searched_alike() -> None:
    trees, _ = searched(CHOICE, Even(1, priors=(0.6, 0.4)), 8, games=20)
    assert trees.edge_visits[trees.roots].tolist() == [[2, 6]] * 20


def test_B173_values_are_those_of_whoever_is_to_move() -> None:
    game = Nim(2)
    trees, _ = searched(game, PerfectNim(), 16)
    found = found_in(trees, 1.0)
    assert best_moves(found, trees).tolist() == [1]
    assert found.value.tolist() == [1.0]


@pytest.mark.parametrize(("stones", "value"), [(3, -1.0), (4, 1.0), (5, 1.0), (6, -1.0), (7, 1.0)])
def test_heaps_of_stones_are_proven_without_a_network(stones: int, value: float) -> None:
    trees, _ = searched(Nim(stones), Even(2), 200, solver=True)
    found = found_in(trees, 1.0)
    assert found.proven.tolist() == [True]
    assert found.value.tolist() == [value]
    if value > 0:
        assert best_moves(found, trees).tolist() == [stones % 3 - 1]


def test_B174_simulations_that_are_under_way_together_look_at_different_moves() -> None:
    fan = TableGame(1, {0: (0, {action: (action + 1, (0.0,)) for action in range(8)})}, actions=8)
    trees, _ = searched(fan, Even(1), 8, leaves=8)
    assert trees.edge_visits[trees.roots[0]].tolist() == [1.0] * 8


def test_virtual_losses_are_taken_back() -> None:
    together, _ = searched(CHOICE, Even(1, priors=(0.6, 0.4)), 40, leaves=4, virtual_loss=3.0)
    root = together.roots[0]
    np.testing.assert_allclose(together.total[root], [0.0, 0.5 * together.edge_visits[root, 1]], atol=1e-12)
    assert together.edge_visits[root].sum() == 40


def test_a_position_that_several_come_to_at_once_is_made_once() -> None:
    line = TableGame(1, {0: (0, {0: (1, (0.0,))}), 1: (0, {0: (2, (1.0,))})}, actions=1)
    trees, _ = searched(line, Even(1), 4, leaves=4)
    assert trees.count == 2
    assert trees.edge_visits[trees.roots[0]].tolist() == [4.0]


#: Action 0 gives 0.4 for certain; action 1 leads to a coin: 1 or nothing.
COIN = TableGame(
    1,
    {0: (0, {0: (9, (0.4,)), 1: (1, (0.0,))}), 1: (0, {0: (8, (1.0,)), 1: (7, (0.0,))})},
    chances={1: (0.5, 0.5)},
)


def test_chance_is_averaged_over_and_its_outcomes_come_in_proportion() -> None:
    trees, _ = searched(COIN, Even(1), 64)
    coin = trees.child[trees.roots[0], 1]
    heads, tails = trees.edge_visits[coin, :2]
    assert abs(heads - tails) <= 1
    found = found_in(trees, 1.0)
    assert best_moves(found, trees).tolist() == [1]
    assert trees.quality[trees.roots[0], 1] == pytest.approx(0.5, abs=0.02)


def test_what_chance_decides_is_proven_to_its_expectation() -> None:
    trees, _ = searched(COIN, Even(1), 16, solver=True)
    found = found_in(trees, 1.0)
    assert found.proven.tolist() == [True]
    assert found.value.tolist() == [0.5]
    assert best_moves(found, trees).tolist() == [1]


def test_unlikely_outcomes_get_their_share() -> None:
    dice = TableGame(
        1, {0: (0, {0: (1, (0.0,))}), 1: (0, {i: (i + 2, (float(i),)) for i in range(3)})}, chances={1: (0.7, 0.2, 0.1)}
    )
    trees, _ = searched(dice, Even(1), 100)
    coin = trees.child[trees.roots[0], 0]
    np.testing.assert_allclose(trees.edge_visits[coin, :3], [70, 20, 10], atol=1)
    assert trees.edges == 3 and trees.actions == 2


def test_each_of_three_players_looks_after_itself() -> None:
    # Player 1 would choose its own 3 over the 2 that player 0 hopes for; player 0 gets more by the other way.
    game = TableGame(
        3,
        {
            0: (0, {0: (1, (0, 0, 0)), 1: (2, (0, 0, 0))}),
            1: (1, {0: (3, (2, 1, 0)), 1: (4, (0, 3, 0))}),
            2: (2, {0: (5, (1, 0, 2)), 1: (6, (3, 0, 1))}),
        },
    )
    trees, _ = searched(game, Even(3), 60, solver=True)
    root = trees.roots[0]
    assert trees.proven[root]
    assert trees.exact[root].tolist() == [1.0, 0.0, 2.0]
    assert best_moves(found_in(trees, 1.0), trees).tolist() == [1]


def test_rewards_on_the_way_are_discounted() -> None:
    line = TableGame(1, {0: (0, {0: (1, (1.0,))}), 1: (0, {0: (2, (1.0,))})}, actions=1)
    rng = np.random.default_rng(0)
    trees = Trees(line, line.initial(1, rng), 8)
    Search(trees, Even(1), SearchConfig(), discount=0.5).run(4, rng)
    assert trees.exact[trees.roots[0]].tolist() == [1.5]


def test_a_search_without_a_solver_proves_nothing() -> None:
    trees, _ = searched(Nim(4), Even(2), 200)
    assert not trees.proven[trees.roots[0]]


def test_playouts_of_any_model_end_with_what_players_get() -> None:
    game, rng = Nim(5), np.random.default_rng(0)
    returns = game.playouts(game.initial(200, rng), rng)
    assert set(returns[:, 0].tolist()) == {-1.0, 1.0}
    np.testing.assert_array_equal(returns.sum(axis=1), 0.0)
    _, values = Playouts(game, 3).evaluate(
        game.initial(4, rng), np.ones((4, 2), np.bool_), np.zeros(4, np.int64), rng
    )
    assert (np.abs(values) <= 1.0).all()


def test_room_for_nodes_grows_as_it_is_needed() -> None:
    rng = np.random.default_rng(0)
    game = Nim(12)
    small, large = Trees(game, game.initial(2, rng), 3), Trees(game, game.initial(2, rng), 1000)
    for trees in (small, large):
        Search(trees, Even(2), SearchConfig(solver=False)).run(60, rng)
    np.testing.assert_array_equal(small.edge_visits[small.roots], large.edge_visits[large.roots])
    assert small.capacity > 3


def test_models_without_discrete_moves_are_refused() -> None:
    class Steered(TableGame):
        def legal(self, states: Columns) -> None:  # type: ignore[override]
            return None

    model, rng = Steered(2, {0: (0, {0: (1, (1.0, -1.0))})}), np.random.default_rng(0)
    roots = model.initial(1, rng)
    with pytest.raises(SpaceError, match="actions are Discrete"):
        Trees(model, roots, 4)
    with pytest.raises(SpaceError, match="actions are Discrete"):
        model.draw_moves(roots, rng)
