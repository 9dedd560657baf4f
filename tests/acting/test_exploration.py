from __future__ import annotations

import numpy as np
import pytest

from rlcore.acting.exploration import ActionNoise, ExplorationRate, epsilon_greedy, greedy, uniform
from rlcore.errors import UserError
from rlcore.policy_graph import ActRows

Q = np.array([[1.0, 3.0, 2.0], [5.0, 0.0, 4.0]], np.float32)


def rows_of(*slots: int) -> ActRows:
    n = len(slots)
    return ActRows(np.array(slots), np.zeros(n, np.int64), np.ones(n, np.int64), np.zeros(n, np.bool_))


def test_a_rate_follows_its_schedule() -> None:
    rate = ExplorationRate([[0, 1.0], [10_000, 0.05]])
    assert rate.of(None) == 1.0
    rate.advance(5000)
    assert rate.of(None) == pytest.approx(0.525)
    rate.advance(20_000)
    assert rate.of(None) == pytest.approx(0.05)


def test_B073_a_rate_goes_on_where_it_was() -> None:
    rate, other = (ExplorationRate([[0, 1.0], [10_000, 0.05]]) for _ in range(2))
    rate.advance(5000)
    other.set_state(rate.get_state())
    assert other.of(None) == pytest.approx(0.525)


def test_a_rate_is_set_for_all_slots_or_for_each() -> None:
    rate = ExplorationRate(0.3)
    rate.set(0.1)
    assert rate.of(rows_of(2, 0)) == 0.1 and rate.now() == 0.1
    rate.set(np.array([0.1, 0.2, 0.4]))
    assert np.asarray(rate.of(rows_of(2, 0))).tolist() == [0.4, 0.1]
    other = ExplorationRate(0.3)
    other.set_state(rate.get_state())
    assert other.now().tolist() == [0.1, 0.2, 0.4]
    rate.set(None)
    assert rate.of(rows_of(2, 0)) == 0.3 and other.now().tolist() == [0.1, 0.2, 0.4]


@pytest.mark.parametrize("value", [-0.1, float("nan"), [[0.1]], []])
def test_other_rates_are_refused(value: object) -> None:
    with pytest.raises(UserError, match="a number of 0 or more, or one for each slot"):
        ExplorationRate(0.3).set(value)  # type: ignore[arg-type]


def test_a_slot_without_a_rate_is_named() -> None:
    rate = ExplorationRate(0.3)
    rate.set([0.1, 0.2])
    with pytest.raises(UserError, match="was set for 2 slots, and slot 2 should act"):
        rate.of(rows_of(0, 2))
    with pytest.raises(UserError, match="slots that are not told"):
        rate.of(None)


def test_B107_the_best_action_is_one_that_is_allowed() -> None:
    assert greedy(Q, None).tolist() == [1, 0]
    assert greedy(Q, np.array([[1, 0, 1], [0, 1, 1]], np.bool_)).tolist() == [2, 2]


def test_epsilon_is_the_share_of_actions_that_are_drawn() -> None:
    rng, q = np.random.default_rng(0), np.tile(Q[:1], (30_000, 1))
    shares = np.bincount(epsilon_greedy(q, None, 0.3, rng), minlength=3) / len(q)
    assert shares == pytest.approx([0.1, 0.8, 0.1], abs=0.01)
    assert (epsilon_greedy(q, None, 0.0, rng) == 1).all()


def test_epsilon_by_row() -> None:
    rng, q = np.random.default_rng(0), np.tile(Q[:1], (10_000, 1))
    epsilon = np.repeat([0.0, 0.9], 5000)
    actions = epsilon_greedy(q, None, epsilon, rng)
    assert (actions[:5000] == 1).all()
    assert (actions[5000:] == 1).mean() == pytest.approx(0.4, abs=0.02)


def test_what_is_drawn_is_allowed() -> None:
    rng, q = np.random.default_rng(0), np.tile(Q[:1], (10_000, 1))
    allowed = np.tile(np.array([[True, False, True]]), (len(q), 1))
    shares = np.bincount(epsilon_greedy(q, allowed, 1.0, rng), minlength=3) / len(q)
    assert shares == pytest.approx([0.5, 0.0, 0.5], abs=0.02)


def test_noise_is_correlated_from_step_to_step() -> None:
    noise, rng = ActionNoise(0.9, 2), np.random.default_rng(0)
    state = noise.initial_state(5000)
    assert noise.state_parts == 1 and not state[0].any()
    for _ in range(60):
        before = state[0]
        drawn, state = noise.draw(5000, state, rng)
    assert np.array_equal(drawn, state[0]) and drawn.dtype == np.float32
    assert drawn.std() == pytest.approx(1.0, abs=0.02)
    assert np.corrcoef(before[:, 0], drawn[:, 0])[0, 1] == pytest.approx(0.9, abs=0.01)
    assert np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1] == pytest.approx(0.0, abs=0.05)


def test_noise_without_correlation_has_no_state() -> None:
    noise = ActionNoise(0.0, 2)
    assert noise.initial_state(3) == () and noise.state_parts == 0
    drawn, state = noise.draw(3, (), np.random.default_rng(0))
    assert state == ()
    assert np.array_equal(drawn, np.random.default_rng(0).standard_normal((3, 2), np.float32))


def test_normal_numbers_are_spread_evenly() -> None:
    normal = np.array([-np.inf, -1.0, 0.0, 0.5, np.inf], np.float32)
    assert uniform(normal) == pytest.approx([-1.0, -0.6827, 0.0, 0.3829, 1.0], abs=1e-3)
