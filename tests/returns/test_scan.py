from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.returns import backward_scan

NUMBERS = st.floats(-10.0, 10.0)
FACTORS = st.one_of(st.just(0.0), st.floats(-1.0, 1.0))


def scan_row_by_row(a: list[float], b: list[float]) -> list[float]:
    x = [0.0] * (len(a) + 1)
    for i in reversed(range(len(a))):
        x[i] = a[i] + (b[i] * x[i + 1] if b[i] else 0.0)
    return x[:-1]


def test_literal_numbers() -> None:
    assert backward_scan(np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.5, 0.5])).tolist() == [2.75, 3.5, 3.0]


@given(st.lists(st.tuples(NUMBERS, FACTORS), max_size=70))
@settings(deadline=None)
def test_equals_the_loop(rows: list[tuple[float, float]]) -> None:
    a, b = [row[0] for row in rows], [row[1] for row in rows]
    np.testing.assert_allclose(backward_scan(np.array(a), np.array(b)), scan_row_by_row(a, b), rtol=1e-12, atol=1e-12)


def test_long_runs_keep_float64_accuracy() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=5000), np.full(5000, 0.999)
    np.testing.assert_allclose(backward_scan(a, b), scan_row_by_row(list(a), list(b)), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf, 1e300])
def test_a_zero_factor_keeps_out_whatever_lies_behind(poison: float) -> None:
    a = np.array([1.0, 1.0, 1.0, poison, 1.0])
    b = np.array([0.9, 0.9, 0.0, 0.9, 0.9])
    np.testing.assert_allclose(backward_scan(a, b)[:3], [2.71, 1.9, 1.0])


def test_arguments_are_left_alone() -> None:
    a, b = np.ones(9), np.full(9, 0.5)
    backward_scan(a, b)
    assert (a == 1.0).all() and (b == 0.5).all()


def test_float32_comes_out_as_float64() -> None:
    result = backward_scan(np.ones(3, np.float32), np.ones(3, np.float32))
    assert result.dtype == np.float64 and result.tolist() == [3.0, 2.0, 1.0]


@pytest.mark.parametrize(("a", "b"), [((3,), (4,)), ((2, 2), (2, 2)), ((3,), ())])
def test_shapes_that_do_not_fit_are_refused(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"one shape \[N\]"):
        backward_scan(np.zeros(a), np.zeros(b))
