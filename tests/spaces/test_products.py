"""Distributions over several choices and over nested actions: the sums of their parts, whatever the structure."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from support.spaces import ACTIONS, SQUASHED, action_spaces

from rlcore.acting import (
    Categorical,
    DiagonalGaussian,
    Distribution,
    MultiCategorical,
    Product,
    distribution_for,
    to_env,
)
from rlcore.columns import leaf_spaces
from rlcore.errors import BatchError

CASES = [(name, False) for name in ACTIONS] + [(name, True) for name in SQUASHED]


def some_params(distribution: Distribution, rows: int, seed: int = 0, scale: float = 1.0) -> Any:
    return np.random.default_rng(seed).normal(scale=scale, size=(rows, distribution.parameters)).astype(np.float32)


@pytest.mark.parametrize(("name", "squash"), CASES)
def test_B094_the_ratio_before_the_first_update_is_exactly_1(name: str, squash: bool) -> None:
    distribution = distribution_for(ACTIONS[name], squash)
    params = some_params(distribution, 64)
    for draw in (distribution.draw(params, np.random.default_rng(1)), distribution.mode(params)):
        assert draw.logp.dtype == np.float32 and draw.logp.shape == (64,)
        assert set(draw.extras) == set(distribution.extras)
        again = distribution.log_prob(params, draw.actions, draw.extras)
        assert (np.exp(again - draw.logp) == 1.0).all()


@pytest.mark.parametrize(("name", "squash"), CASES)
def test_no_rows_are_no_trouble(name: str, squash: bool) -> None:
    distribution = distribution_for(ACTIONS[name], squash)
    params = some_params(distribution, 0)
    draw = distribution.draw(params, np.random.default_rng(1))
    mode = distribution.mode(params)
    assert len(draw.logp) == len(mode.logp) == len(distribution.entropy(params)) == 0
    assert len(distribution.log_prob(params, draw.actions, draw.extras)) == 0
    to_env(draw.actions, ACTIONS[name])


@settings(max_examples=60, deadline=None)
@given(action_spaces(), st.booleans(), st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1.0, 30.0]))
def test_what_is_drawn_is_legal_and_its_log_probability_is_found_again(
    space: Any, squash: bool, seed: int, scale: float
) -> None:
    distribution = distribution_for(space, squash)
    params = some_params(distribution, 7, seed)
    params[:, : distribution.outputs] *= scale
    for draw in (distribution.draw(params, np.random.default_rng(seed)), distribution.mode(params)):
        assert np.isfinite(draw.logp).all()
        assert (distribution.log_prob(params, draw.actions, draw.extras) == draw.logp).all()
        one_by_one = [
            distribution.log_prob(params[i : i + 1], _row(draw.actions, i), _row(draw.extras, i))[0] for i in range(7)
        ]
        # Not to the last bit: numpy adds up the numbers of one row in another order than those of several.
        np.testing.assert_allclose(one_by_one, draw.logp, rtol=1e-5, atol=1e-6)
        sent = to_env(draw.actions, space)
        for leaf, child in leaf_spaces(space).items():
            column: Any = sent[leaf] if isinstance(sent, dict) else sent
            assert column.dtype == child.dtype and all(child.contains(value) for value in column)


def _row(columns: Any, i: int) -> Any:
    return {name: c[i : i + 1] for name, c in columns.items()} if isinstance(columns, dict) else columns[i : i + 1]


@settings(max_examples=40, deadline=None)
@given(action_spaces(), st.booleans(), st.integers(0, 2**32 - 1))
def test_log_probability_and_entropy_are_the_sums_of_the_leaves_own(space: Any, squash: bool, seed: int) -> None:
    distribution = distribution_for(space, squash)
    params = some_params(distribution, 5, seed)
    draw = distribution.draw(params, np.random.default_rng(seed))
    at, free, logp, entropy = 0, distribution.outputs, np.zeros(5), np.zeros(5)
    for leaf, child in leaf_spaces(space).items():
        part = distribution_for(child, squash)
        own = np.concatenate([params[:, at : at + part.outputs], params[:, free : free + part.free]], axis=1)
        actions: Any = draw.actions[leaf] if isinstance(draw.actions, dict) else draw.actions
        extras = {name: draw.extras[f"{name}.{leaf}" if leaf else name] for name in part.extras}
        logp += part.log_prob(own, actions, extras)
        entropy += part.entropy(own)
        at, free = at + part.outputs, free + part.free
    assert (at, free) == (distribution.outputs, distribution.parameters)
    np.testing.assert_allclose(draw.logp, logp, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(distribution.entropy(params), entropy, rtol=1e-5, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.5, 40.0]),
    st.booleans(),
)
def test_several_choices_by_enumeration(nvec: list[int], seed: int, scale: float, with_mask: bool) -> None:
    distribution = MultiCategorical(np.array(nvec))
    rng = np.random.default_rng(seed)
    params = some_params(distribution, 1, seed, scale)
    if with_mask:
        allowed = rng.random((1, sum(nvec))) < 0.5
        starts = np.cumsum(nvec) - nvec
        allowed[:, starts + rng.integers(nvec)] = True
        params = distribution.masked(params, allowed)
    every = np.array(list(itertools.product(*map(range, nvec))))
    logp = distribution.log_prob(np.repeat(params, len(every), axis=0), every, {}).astype(np.float64)
    p = np.exp(logp)
    assert abs(p.sum() - 1.0) < 1e-5
    entropy = -(p[p > 0] * logp[p > 0]).sum()
    assert abs(float(distribution.entropy(params)[0]) - entropy) < 1e-4
    assert logp[(every == distribution.mode(params).actions).all(axis=1)] == pytest.approx(logp.max(), abs=1e-5)
    probabilities = distribution.probabilities(params)[0]
    for i, (start, n) in enumerate(zip(np.cumsum(nvec) - nvec, nvec, strict=True)):
        marginal = [p[every[:, i] == option].sum() for option in range(n)]
        np.testing.assert_allclose(probabilities[start : start + n], marginal, atol=1e-5)
    if with_mask:
        drawn = distribution.draw(np.repeat(params, 50, axis=0), rng).actions
        assert allowed[0, starts + drawn].all()


def test_frequencies_of_several_choices() -> None:
    logits = np.log(np.tile(np.array([[0.1, 0.9, 0.2, 0.3, 0.5]], np.float32), (20_000, 1)))
    actions: Any = MultiCategorical(np.array([2, 3])).draw(logits, np.random.default_rng(0)).actions
    np.testing.assert_allclose(np.bincount(actions[:, 0]) / 20_000, [0.1, 0.9], atol=0.01)
    np.testing.assert_allclose(np.bincount(actions[:, 1]) / 20_000, [0.2, 0.3, 0.5], atol=0.01)
    both = np.bincount(actions[:, 0] * 3 + actions[:, 1]) / 20_000
    np.testing.assert_allclose(both, [0.02, 0.03, 0.05, 0.18, 0.27, 0.45], atol=0.01)


@pytest.mark.parametrize("name", ["discrete", "multi_discrete_2d", "multi_binary"])
def test_B103_numbers_that_are_none_still_give_an_index(name: str) -> None:
    # The observation that they come from is refused where it can be named, which is later.
    distribution = distribution_for(ACTIONS[name], squash=False)
    params = np.full((3, distribution.parameters), np.nan, np.float32)
    for draw in (distribution.draw(params, np.random.default_rng(0)), distribution.mode(params)):
        assert (np.asarray(draw.actions) == 0).all() and np.isnan(draw.logp).all()


class FixedPoints:
    """Stands in for a generator: hands out given uniform numbers."""

    def __init__(self, points: Any) -> None:
        self.points = points

    def random(self, shape: tuple[int, ...]) -> Any:
        assert shape == self.points.shape
        return self.points


def test_points_at_the_edges_fall_on_options_with_a_probability() -> None:
    distribution = MultiCategorical(np.array([3, 3, 3]))
    inf = np.inf
    logits = np.array([[-inf, 0, -inf, 80.0, 80.0, -inf, -inf, -inf, 5.0]] * 2, np.float32)
    points: Any = FixedPoints(np.array([[0.0] * 3, [1.0 - 2.0**-53] * 3]))
    draw = distribution.draw(logits, points)
    assert np.asarray(draw.actions).tolist() == [[1, 0, 2], [1, 1, 2]]
    np.testing.assert_allclose(np.exp(draw.logp), [0.5, 0.5], rtol=1e-6)


def test_one_choice_is_drawn_as_by_a_categorical() -> None:
    params = some_params(Categorical(5), 100)
    one = Categorical(5).draw(params, np.random.default_rng(3))
    other = MultiCategorical(np.array([5])).draw(params, np.random.default_rng(3))
    assert np.asarray(other.actions)[:, 0].tolist() == np.asarray(one.actions).tolist()
    np.testing.assert_allclose(other.logp, one.logp, rtol=1e-6)


def test_B096_a_two_dimensional_nvec_keeps_its_shape() -> None:
    space = spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 0], [-1, 7]])
    distribution = distribution_for(space, squash=False)
    assert (distribution.outputs, distribution.choices) == (14, (2, 3, 4, 5))
    logits = np.full((1, 14), -9.0, np.float32)
    logits[0, [1, 2, 8, 9]] = 9.0
    mode = distribution.mode(logits)
    assert np.asarray(mode.actions).tolist() == [[[1, 0], [3, 0]]]
    sent: Any = to_env(mode.actions, space)
    assert sent.tolist() == [[[2, 0], [2, 7]]] and space.contains(sent[0])


def test_B097_a_tuple_of_a_choice_and_a_box_by_literal_numbers() -> None:
    distribution = distribution_for(spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (2,))]), squash=False)
    assert isinstance(distribution, Product)
    assert [type(part) for part in distribution.parts.values()] == [Categorical, DiagonalGaussian]
    assert (distribution.outputs, distribution.free, distribution.choices) == (5, 2, (3,))
    # Logits of 1/2, 1/4, 1/4; means 0 and 1; deviations 1 and 2.
    params = np.array([[np.log(2.0), 0.0, 0.0, 0.0, 1.0, 0.0, np.log(2.0)]], np.float32)
    actions = {"0": np.array([1]), "1": np.array([[1.0, 1.0]], np.float32)}
    expected = np.log(0.25) + (-0.5 - 0.9189385) + (-np.log(2.0) - 0.9189385)
    np.testing.assert_allclose(distribution.log_prob(params, actions, {}), [expected], rtol=1e-6)
    discrete = 0.5 * np.log(2.0) + 0.5 * np.log(4.0)
    gaussian = 2 * 1.4189385 + np.log(2.0)
    np.testing.assert_allclose(distribution.entropy(params), [discrete + gaussian], rtol=1e-6)
    mode: Any = distribution.mode(params).actions
    assert mode["0"].tolist() == [0] and mode["1"].tolist() == [[0.0, 1.0]]


def test_actions_of_another_structure_are_refused() -> None:
    nested = distribution_for(ACTIONS["tuple"], squash=True)
    params = some_params(nested, 2)
    draw = nested.draw(params, np.random.default_rng(0))
    with pytest.raises(BatchError, match="expected actions with the parts 0, 1, not one array"):
        nested.log_prob(params, np.zeros(2), draw.extras)
    with pytest.raises(BatchError, match="not the parts 0"):
        nested.log_prob(params, {"0": np.zeros(2)}, draw.extras)
    with pytest.raises(BatchError, match=r"needs the columns pre_tanh\.1"):
        nested.log_prob(params, draw.actions, {})
    plain = distribution_for(ACTIONS["box"], squash=False)
    with pytest.raises(BatchError, match="plain space, not the parts 0, 1"):
        plain.log_prob(some_params(plain, 2), draw.actions, {})


def test_float16_actions_never_become_infinite() -> None:
    actions = np.array([[1e6, -1e6]], np.float32)
    bounded: Any = to_env(actions, spaces.Box(-1, 1, (2,), np.float16))
    unbounded: Any = to_env(actions, spaces.Box(-np.inf, np.inf, (2,), np.float16))
    assert bounded.tolist() == [[1.0, -1.0]] and bounded.dtype == np.float16
    assert unbounded.tolist() == [[65504.0, -65504.0]]
