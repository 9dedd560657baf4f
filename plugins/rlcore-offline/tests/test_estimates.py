"""Estimators against numbers worked out by hand, and against the truth where that is known."""

from __future__ import annotations

import numpy as np
import pytest

from rlcore_offline.estimates import (
    ESTIMATORS,
    Padded,
    estimate,
    importance,
    padded,
    per_decision,
    weighted,
    weighted_per_decision,
)

#: Two episodes: rewards 1, 2 with ratios 2, 0.5; reward 4 with ratio 3.
TWO = padded(np.log([2.0, 0.5, 3.0]), np.array([1.0, 2.0, 4.0]), np.array([0, 2]), 0.5)


def test_episodes_lie_side_by_side() -> None:
    np.testing.assert_allclose(TWO.rewards, [[1.0, 1.0], [4.0, 0.0]])
    np.testing.assert_allclose(TWO.weights, [[2.0, 1.0], [3.0, 3.0]])
    np.testing.assert_allclose(TWO.relative_weights, [[2 / 3, 1 / 3], [1.0, 1.0]])


def test_estimators_by_hand() -> None:
    # Returns 2 and 4, products 1 and 3.
    assert importance(TWO) == pytest.approx((1 * 2 + 3 * 4) / 2)
    assert weighted(TWO) == pytest.approx((1 * 2 + 3 * 4) / 4)
    assert per_decision(TWO) == pytest.approx(((2 * 1 + 1 * 1) + 3 * 4) / 2)
    assert weighted_per_decision(TWO) == pytest.approx((2 * 1 + 3 * 4) / 5 + (1 * 1 + 3 * 0) / 4)


def test_of_the_policy_itself_all_are_the_mean_return() -> None:
    own = padded(np.zeros(3), np.array([1.0, 2.0, 4.0]), np.array([0, 2]), 0.5)
    for estimator in ESTIMATORS.values():
        assert estimator(own) == pytest.approx(3.0)
    found = estimate(own, np.random.default_rng(0), resamples=50)
    assert found.recorded == pytest.approx(3.0) and found.effective_episodes == pytest.approx(2.0)


def test_policies_that_have_nothing_in_common_give_numbers() -> None:
    """Products of 200 ratios of e^-10 and e^-11 are 0 as numbers, and their quotient is e^-200."""
    log_ratios = np.repeat([-10.0, -11.0], 200)
    far = padded(log_ratios, np.repeat([1.0, 3.0], 200), np.array([0, 200]), 1.0)
    assert importance(far) == 0.0 == per_decision(padded(log_ratios - 1000.0, np.ones(400), np.array([0, 200]), 1.0))
    assert weighted(far) == pytest.approx(200.0)
    found = estimate(far, np.random.default_rng(0), resamples=20)
    assert found.effective_episodes == pytest.approx(1.0)
    assert np.isfinite(found.weighted_per_decision) and np.isfinite(found.intervals["weighted_per_decision"]).all()


def test_effective_episodes_by_hand() -> None:
    assert estimate(TWO, np.random.default_rng(0), resamples=5).effective_episodes == pytest.approx(16 / 10)


def bandit(episodes: int, rng: np.random.Generator) -> Padded:
    """One step; action 1 gives 1. It was drawn with probability 0.3, and the policy in question takes it with 0.8."""
    actions = rng.random(episodes) < 0.3
    log_ratios = np.where(actions, np.log(0.8 / 0.3), np.log(0.2 / 0.7))
    return padded(log_ratios, actions.astype(np.float64), np.arange(episodes), 1.0)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_they_come_to_the_truth(name: str) -> None:
    assert ESTIMATORS[name](bandit(40_000, np.random.default_rng(1))) == pytest.approx(0.8, abs=0.02)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    rng, held = np.random.default_rng(2), 0
    for _ in range(40):
        low, high = estimate(bandit(200, rng), rng, resamples=200).intervals["weighted"]
        held += low <= 0.8 <= high
    assert 34 <= held <= 40


def test_the_same_seed_gives_the_same_intervals() -> None:
    one, other = (estimate(TWO, np.random.default_rng(3), resamples=20) for _ in range(2))
    assert one == other
