"""The table of noise, and sums of it that nothing rounds."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcore_es.noise import LARGEST, QUANTUM, WEIGHTS_SUM, noise_table, weighted_sum, windows


def test_the_table_is_normal_rounded_and_read_only() -> None:
    table = noise_table(200_000, 7)
    assert table.dtype == np.float32 and not table.flags.writeable
    assert np.array_equal(table / QUANTUM, np.rint(table / QUANTUM))
    assert np.abs(table).max() <= LARGEST
    assert abs(float(table.mean())) < 0.01 and abs(float(table.std()) - 1.0) < 0.01
    assert np.array_equal(table, noise_table(200_000, 7))
    assert not np.array_equal(table, noise_table(200_000, 8))


def test_windows_are_slices_of_the_table() -> None:
    table = np.arange(10, dtype=np.float32)
    assert windows(table, np.array([0, 7, 3]), 3).tolist() == [[0, 1, 2], [7, 8, 9], [3, 4, 5]]
    assert windows(table, np.zeros(0, np.int64), 3).shape == (0, 3)


def test_a_weighted_sum_by_hand() -> None:
    table = np.array([1, 2, 3, 4], np.float32)
    found = weighted_sum(table, np.array([0, 1, 2]), np.array([1, -2, 3]), 2)
    assert found.tolist() == [1 - 4 + 9, 2 - 6 + 12]


@pytest.mark.parametrize("largest", [1, 2**20, WEIGHTS_SUM // 64])
def test_sums_are_exact_in_whatever_order_and_parts(largest: int) -> None:
    rng = np.random.default_rng(3)
    table = noise_table(5_000, 1)
    indexes, weights = rng.integers(0, 4_990, 64), rng.integers(-largest, largest + 1, 64)
    whole = weighted_sum(table, indexes, weights, 10)
    order = rng.permutation(64)
    parts = [weighted_sum(table, indexes[part], weights[part], 10) for part in np.array_split(order, [1, 5, 40])]
    assert np.array_equal(whole, parts[3] + (parts[1] + parts[0]) + parts[2])
    terms = (int(weight) * Fraction(float(table[i])) for i, weight in zip(indexes, weights, strict=True))
    exact = sum(terms, Fraction())
    assert Fraction(float(whole[0])) == exact


@given(st.integers(1, 400), st.integers(0, 2**32))
def test_ranks_never_weigh_more_than_a_sum_can_take(pairs: int, seed: int) -> None:
    from rlcore_es.shaping import CentredRanks

    returns = np.random.default_rng(seed).standard_normal((2, pairs))
    assert np.abs(CentredRanks().weigh(returns, 0.1).weights).sum() <= WEIGHTS_SUM
    assert WEIGHTS_SUM >= 4 * (1 << 16) ** 2  # what ranks of the most pairs that may be asked for come to
