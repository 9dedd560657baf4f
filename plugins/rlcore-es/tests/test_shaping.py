"""From returns to weights: centred ranks and the best directions of ARS."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from rlcore_es.shaping import BestDirections, CentredRanks, Shaping, doubled_ranks


def test_equal_values_share_the_mean_of_their_ranks() -> None:
    assert doubled_ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == [5, 0, 5, 2]
    assert doubled_ranks(np.array([7.0, 7.0, 7.0])).tolist() == [2, 2, 2]


def test_centred_ranks_by_hand() -> None:
    # Ranks of 10 20 / 30 0 are 1 2 / 3 0, centred -1/6 1/6 / 1/2 -1/2.
    found = CentredRanks().weigh(np.array([[10.0, 20.0], [30.0, 0.0]]), 0.5)
    assert found.weights.tolist() == [-4, 4]
    # The mean over four members of u * noise / 0.5: pair 0 weighs (-1/6 - 1/2) / 4 / 0.5.
    assert found.weights[0] * found.scale == pytest.approx((-1 / 6 - 1 / 2) / 4 / 0.5, rel=1e-15)


def test_only_the_order_of_returns_counts() -> None:
    returns = np.random.default_rng(1).standard_normal((2, 9))
    one, two = CentredRanks().weigh(returns, 0.1), CentredRanks().weigh(np.exp(3 * returns), 0.1)
    assert np.array_equal(one.weights, two.weights) and one.scale == two.scale


def test_returns_that_say_nothing_move_nothing() -> None:
    returns = np.full((2, 4), 5.0)
    assert not CentredRanks().weigh(returns, 0.1).weights.any()
    assert not BestDirections(top=2).weigh(returns, 0.1).weights.any()


def test_the_best_directions_by_hand() -> None:
    returns = np.array([[1.0, 5.0, 2.0], [4.0, 3.0, 0.0]])
    found = BestDirections(top=2).weigh(returns, 0.1)
    # The pairs 0 and 1 have the best returns, 4 and 5; of 1 5 4 3 the standard deviation is sqrt(35) / 4.
    std = 35.0**0.5 / 4
    expected = np.array([(1 - 4) / (2 * std), (5 - 3) / (2 * std), 0.0])
    assert found.weights * found.scale == pytest.approx(expected, rel=1e-8)


def test_more_directions_than_there_are_are_all_of_them() -> None:
    returns = np.array([[1.0, 2.0], [0.0, 0.0]])
    one, two = BestDirections(top=2).weigh(returns, 0.1), BestDirections(top=50).weigh(returns, 0.1)
    assert np.array_equal(one.weights, two.weights) and one.scale == two.scale


def test_settings_tell_which_it_is() -> None:
    read = TypeAdapter(Shaping).validate_python
    assert read({}) == CentredRanks() and read({"top": 3}) == BestDirections(top=3)
    for wrong in ({"top": 0}, {"best": 3}):
        with pytest.raises(ValidationError):
            read(wrong)
