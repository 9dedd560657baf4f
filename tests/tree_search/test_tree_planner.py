"""Acting by a search: what is drawn, noise, what is kept from move to move, and actors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.small_games import Even, Nim, PerfectNim, TableGame

from rlcore.errors import ConfigError, UserError
from rlcore.model import BatchedModel
from rlcore.policy_graph import ActRows
from rlcore.tree_search import Leaves, SearchConfig
from rlcore.tree_search.tree_planner import SEARCH_POLICY, SEARCH_PROVEN, SEARCH_VALUE, TreePlanner, rules_of

FAN = TableGame(1, {0: (0, {action: (action + 1, (0.0,)) for action in range(4)})}, actions=4)


def planner(model: BatchedModel, leaves: Leaves, **settings: Any) -> TreePlanner:
    return TreePlanner(model, leaves, SearchConfig(**{"simulations": 40, "solver": False, **settings}))


def rows(slots: list[int], first: bool = True, t: int = 0) -> ActRows:
    n = len(slots)
    return ActRows(np.array(slots), np.zeros(n, np.int64), np.full(n, t), np.full(n, first))


def start(model: BatchedModel, n: int = 1) -> Any:
    return model.initial(n, np.random.default_rng(0))


def test_columns_of_what_was_found() -> None:
    out = planner(Nim(4), PerfectNim(), solver=True).act(start(Nim(4), 3), None, False, np.random.default_rng(0))
    assert np.asarray(out.actions).tolist() == [0, 0, 0]
    assert out.extras[SEARCH_POLICY].tolist() == [[1.0, 0.0]] * 3
    assert out.extras[SEARCH_POLICY].dtype == out.extras[SEARCH_VALUE].dtype == np.float32
    assert out.extras[SEARCH_VALUE].tolist() == [1.0, 1.0, 1.0]
    assert out.extras[SEARCH_PROVEN].tolist() == [True, True, True]


def test_moves_are_drawn_by_visits_where_it_explores() -> None:
    one = planner(FAN, Even(1), root_noise=0.0)
    drawn = one.act(start(FAN, 400), None, True, np.random.default_rng(1))
    counts = np.bincount(np.asarray(drawn.actions), minlength=4)
    np.testing.assert_array_equal(drawn.extras[SEARCH_POLICY], 0.25)
    assert counts.min() > 60
    still = one.act(start(FAN, 400), None, False, np.random.default_rng(1))
    assert len(set(np.asarray(still.actions).tolist())) == 1


def test_the_temperature_goes_by_the_players_own_moves() -> None:
    leaves = Even(1, priors=(0.4, 0.3, 0.2, 0.1))
    one = planner(FAN, leaves, root_noise=0.0, temperature=[[0, 1.0], [3, 1.0], [4, 0.0]])
    early = one.act(start(FAN, 300), rows(list(range(300)), t=3), True, np.random.default_rng(0))
    late = one.act(start(FAN, 300), rows(list(range(300)), t=4), True, np.random.default_rng(0))
    assert len(set(np.asarray(early.actions).tolist())) == 4
    assert set(np.asarray(late.actions).tolist()) == {0}


def test_noise_at_the_root_changes_the_search_and_not_the_rules() -> None:
    one = planner(Nim(5), Even(2), root_noise=1.0, noise_alpha=0.1, simulations=4)
    found = one.act(start(Nim(5), 50), None, True, np.random.default_rng(0)).extras[SEARCH_POLICY]
    assert len(np.unique(found, axis=0)) > 1
    without = one.act(start(Nim(5), 50), None, False, np.random.default_rng(0)).extras[SEARCH_POLICY]
    assert len(np.unique(without, axis=0)) == 1
    last = np.array([[1, 0]] * 20)
    assert (one.act(last, None, True, np.random.default_rng(0)).extras[SEARCH_POLICY][:, 1] == 0).all()


def test_a_share_of_the_moves_is_drawn_evenly_from_the_legal_ones() -> None:
    one = planner(Nim(4), PerfectNim(), root_noise=0.0, temperature=0.0, random_moves=0.5)
    moves = np.asarray(one.act(start(Nim(4), 1000), None, True, np.random.default_rng(0)).actions)
    assert 0.2 < (moves == 1).mean() < 0.3
    last = np.asarray(one.act(np.array([[1, 0]] * 100), None, True, np.random.default_rng(0)).actions)
    assert (last == 0).all()


def test_B176_a_new_game_knows_nothing_of_the_one_before() -> None:
    one = planner(Nim(9), Even(2), reuse=True, root_noise=0.0)
    first = []
    for _ in range(2):
        state, t = start(Nim(9)), 0
        rng = np.random.default_rng(5)
        while not Nim(9).terminal(state)[0]:
            out = one.act(state, rows([0], first=t < 2, t=t // 2), True, rng)
            if t == 0:
                first.append((out.extras[SEARCH_POLICY].tobytes(), out.extras[SEARCH_VALUE].tobytes()))
            state, _ = Nim(9).step(state, np.asarray(out.actions), rng)
            t += 1
    assert first[0] == first[1]


def test_a_search_goes_on_from_what_is_still_of_use() -> None:
    one = planner(Nim(9), Even(2), reuse=True, root_noise=0.0)
    rng = np.random.default_rng(0)
    state = start(Nim(9), 2)
    out = one.act(state, rows([4, 7]), False, rng)
    assert one._kept is not None
    before = one._kept.trees
    child = before.child[before.roots, np.asarray(out.actions)]
    known = before.visits[child]
    after, _ = Nim(9).step(state, np.asarray(out.actions), rng)
    # In another order, and with a slot that nothing is known of.
    states = np.concatenate([after[::-1], start(Nim(9))])
    one.act(states, rows([7, 4, 9], first=False), False, rng)
    kept = one._kept.trees
    np.testing.assert_array_equal(kept.visits[kept.roots], [known[1] + 40, known[0] + 40, 41])


def test_what_is_kept_is_found_after_the_others_move_as_well() -> None:
    one = planner(Nim(9), Even(2), reuse=True, root_noise=0.0)
    rng = np.random.default_rng(0)
    state = start(Nim(9))
    out = one.act(state, rows([0]), False, rng)
    assert one._kept is not None
    trees = one._kept.trees
    node = trees.child[trees.child[trees.roots, np.asarray(out.actions)], [1]]
    known = trees.visits[node]
    state, _ = Nim(9).step(state, np.asarray(out.actions), rng)
    state, _ = Nim(9).step(state, np.array([1]), rng)
    one.act(state, rows([0], first=False), False, rng)
    np.testing.assert_array_equal(one._kept.trees.visits[one._kept.trees.roots], known + 40)


def test_states_are_gone_on_from_exactly() -> None:
    one, other = (planner(Nim(12), Even(2), reuse=True) for _ in range(2))
    rng = np.random.default_rng(0)
    state = start(Nim(12), 3)
    out = one.act(state, rows([0, 1, 2]), True, rng)
    kept = one.get_state()
    assert kept is not None
    other.set_state(kept)
    after, _ = Nim(12).step(state, np.asarray(out.actions), rng)
    found = [
        own.act(after, rows([0, 1, 2], first=False), True, np.random.default_rng(3)).extras[SEARCH_POLICY].tobytes()
        for own in (one, other)
    ]
    assert found[0] == found[1]


def test_what_two_players_win_is_not_discounted() -> None:
    with pytest.raises(ConfigError, match=r"gamma: 0\.9 with 2 players"):
        TreePlanner(Nim(3), Even(2), SearchConfig(), 0.9)


def test_without_rules_there_is_nothing_to_plan_with() -> None:
    with pytest.raises(UserError, match="an environment whose rules are known"):
        rules_of(None)


def test_where_everything_loses_there_is_still_a_legal_move() -> None:
    lost = planner(Nim(3), Even(2), solver=True).act(start(Nim(3)), None, False, np.random.default_rng(0))
    assert lost.extras[SEARCH_VALUE].tolist() == [-1.0]
    assert np.asarray(lost.actions)[0] in (0, 1)
