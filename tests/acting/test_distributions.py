from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.acting import (
    PRE_TANH,
    Categorical,
    DiagonalGaussian,
    Distribution,
    SquashedGaussian,
    distribution_for,
)
from rlcore.errors import BatchError, SpaceError

KINDS: list[Distribution] = [
    Categorical(3),
    DiagonalGaussian(2, (2,)),
    DiagonalGaussian(6, (2, 3)),
    SquashedGaussian(np.array([0.0, -3.0]), np.array([10.0, 1.0])),
]


def kind(distribution: Distribution) -> str:
    return f"{type(distribution).__name__}{distribution.outputs}"


def some_params(distribution: Distribution, rows: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(rows, distribution.parameters)).astype(np.float32)


class FixedPoints:
    """Stands in for a generator: hands out given uniform numbers."""

    def __init__(self, points: list[float]) -> None:
        self.points = points

    def random(self, n: int) -> Any:
        assert n == len(self.points)
        return np.array(self.points)


@pytest.mark.parametrize("distribution", KINDS, ids=kind)
def test_what_is_drawn_has_the_documented_form(distribution: Distribution) -> None:
    params = some_params(distribution, 5)
    before = params.copy()
    for draw in (distribution.draw(params, np.random.default_rng(0)), distribution.mode(params)):
        assert draw.actions.dtype == (np.int64 if isinstance(distribution, Categorical) else np.float32)
        assert draw.actions.shape == (5, *getattr(distribution, "shape", ()))
        assert draw.logp.shape == (5,) and draw.logp.dtype == np.float32
        assert not np.shares_memory(draw.actions, params)
    assert (params == before).all()
    assert distribution.entropy(params).shape == (5,) and distribution.entropy(params).dtype == np.float32


@pytest.mark.parametrize("distribution", KINDS, ids=kind)
def test_B094_the_ratio_before_the_first_update_is_exactly_1(distribution: Distribution) -> None:
    params = some_params(distribution, 64)
    for draw in (distribution.draw(params, np.random.default_rng(1)), distribution.mode(params)):
        again = distribution.log_prob(params, draw.actions, draw.extras)
        assert (np.exp(again - draw.logp) == 1.0).all()


def test_B094_the_log_probability_is_that_of_the_unclipped_action() -> None:
    distribution = distribution_for(spaces.Box(-1.0, 1.0, (1,)), squash=False)
    params = np.tile(np.array([[5.0, 0.0]], np.float32), (100, 1))
    draw = distribution.draw(params, np.random.default_rng(0))
    assert (np.abs(draw.actions) > 1.0).all()
    expected = -0.5 * (draw.actions[:, 0] - 5.0) ** 2 - 0.5 * math.log(2 * math.pi)
    np.testing.assert_allclose(draw.logp, expected, atol=1e-6)
    assert (np.exp(distribution.log_prob(params, draw.actions, {}) - draw.logp) == 1.0).all()


@pytest.mark.parametrize("distribution", KINDS, ids=kind)
def test_draws_follow_from_the_generator_alone(distribution: Distribution) -> None:
    params = some_params(distribution, 8)
    first, second = (distribution.draw(params, np.random.default_rng(5)).actions for _ in range(2))
    assert first.tobytes() == second.tobytes()
    nearly = params + np.float32(1e-7)
    np.testing.assert_allclose(distribution.draw(nearly, np.random.default_rng(5)).actions, first, atol=1e-5)


# -- Categorical


def test_categorical_inverts_the_cumulative_distribution() -> None:
    logits = np.log(np.tile(np.array([[0.2, 0.3, 0.5]], np.float32), (6, 1)))
    points: Any = FixedPoints([0.0, 0.19, 0.21, 0.49, 0.51, 1.0 - 2.0**-53])
    draw = Categorical(3).draw(logits, points)
    assert draw.actions.tolist() == [0, 0, 1, 1, 2, 2]
    np.testing.assert_allclose(np.exp(draw.logp), [0.2, 0.2, 0.3, 0.3, 0.5, 0.5], rtol=1e-6)


def test_categorical_frequencies() -> None:
    logits = np.log(np.tile(np.array([[0.1, 0.2, 0.7]], np.float32), (20_000, 1)))
    actions = Categorical(3).draw(logits, np.random.default_rng(0)).actions
    np.testing.assert_allclose(np.bincount(actions) / 20_000, [0.1, 0.2, 0.7], atol=0.01)


def test_categorical_literal_numbers() -> None:
    logits = np.array([[0.0, 0.0], [1000.0, 1000.0], [0.0, math.log(3.0)]], np.float32)
    distribution = Categorical(2)
    np.testing.assert_allclose(
        distribution.log_prob(logits, np.array([0, 1, 1]), {}), np.log([0.5, 0.5, 0.75]), rtol=1e-6
    )
    expected = [math.log(2), math.log(2), -0.25 * math.log(0.25) - 0.75 * math.log(0.75)]
    np.testing.assert_allclose(distribution.entropy(logits), expected, rtol=1e-6)
    np.testing.assert_allclose(distribution.probabilities(logits), [[0.5, 0.5], [0.5, 0.5], [0.25, 0.75]], rtol=1e-6)
    assert distribution.mode(logits).actions.tolist() == [0, 0, 1]


@given(
    st.lists(st.booleans(), min_size=1, max_size=12).filter(any),
    st.one_of(st.sampled_from([0.0, 1.0 - 2.0**-53]), st.floats(0.0, 1.0, exclude_max=True)),
    st.integers(0, 2**32 - 1),
)
@settings(deadline=None)
def test_a_masked_action_is_never_drawn(allowed: list[bool], point: float, seed: int) -> None:
    logits = np.random.default_rng(seed).normal(scale=20, size=(1, len(allowed))).astype(np.float32)
    points: Any = FixedPoints([point])
    distribution = Categorical(len(allowed))
    draw = distribution.draw(distribution.masked(logits, np.array([allowed])), points)
    assert allowed[int(draw.actions[0])] and np.isfinite(draw.logp[0])


def test_B106_ten_thousand_masked_actions_sum_to_one() -> None:
    rng = np.random.default_rng(0)
    allowed = rng.random((4, 10_000)) < 0.5
    distribution = Categorical(10_000)
    logits = distribution.masked(rng.normal(size=(4, 10_000)).astype(np.float32), allowed)
    np.testing.assert_allclose(distribution.probabilities(logits).sum(axis=1), 1.0, atol=1e-5)
    every = np.exp([distribution.log_prob(logits[:1], np.array([a]), {})[0] for a in np.flatnonzero(allowed[0])])
    assert abs(float(every.sum()) - 1.0) < 1e-5
    draw = distribution.draw(logits, rng)
    assert allowed[np.arange(4), draw.actions].all()
    assert np.isfinite(distribution.entropy(logits)).all()


def test_B107_the_greedy_action_is_an_index_among_all_actions() -> None:
    logits = np.array([[9.0, 1.0, 2.0, 9.0, 3.0]], np.float32)
    allowed = np.array([[0, 0, 1, 0, 1]])
    draw = Categorical(5).mode(Categorical(5).masked(logits, allowed))
    assert draw.actions.tolist() == [4]
    np.testing.assert_allclose(draw.logp, [-math.log(1 + math.exp(-1))], rtol=1e-6)


# -- Gaussians


def test_gaussian_literal_numbers() -> None:
    distribution = DiagonalGaussian(2, (2,))
    params = np.array([[1.0, -1.0, 0.0, math.log(2.0)]], np.float32)
    half_log_2pi = 0.9189385
    np.testing.assert_allclose(
        distribution.log_prob(params, np.array([[2.0, 1.0]], np.float32), {}),
        [-0.5 - half_log_2pi - 0.5 - math.log(2.0) - half_log_2pi],
        rtol=1e-6,
    )
    np.testing.assert_allclose(distribution.entropy(params), [1.0 + 2 * half_log_2pi + math.log(2.0)], rtol=1e-6)
    assert distribution.mode(params).actions.tolist() == [[1.0, -1.0]]


def test_gaussian_draws_have_mean_and_deviation() -> None:
    params = np.tile(np.array([[3.0, math.log(0.5)]], np.float32), (20_000, 1))
    actions = DiagonalGaussian(1, ()).draw(params, np.random.default_rng(0)).actions
    assert actions.shape == (20_000,)
    assert abs(float(actions.mean()) - 3.0) < 0.02 and abs(float(actions.std()) - 0.5) < 0.02


def test_B095_the_squashed_log_probability_survives_saturation() -> None:
    distribution = SquashedGaussian(np.array([-1.0]), np.array([1.0]))
    params = np.array([[10.0, math.log(0.1)]], np.float32)
    sample = np.array([[10.0]], np.float32)
    logp = distribution.log_prob(params, np.tanh(sample), {PRE_TANH: sample})
    np.testing.assert_allclose(logp, [19.997], atol=1e-3)
    mode = distribution.mode(params)
    assert mode.actions.tolist() == [[1.0]]
    np.testing.assert_allclose(mode.logp, [19.997], atol=1e-3)


def test_B093_the_mean_of_an_asymmetric_box_is_its_middle() -> None:
    space = spaces.Box(np.array([0.0, -3.0], np.float32), np.array([10.0, 1.0], np.float32))
    draw = distribution_for(space, squash=True).mode(np.zeros((1, 4), np.float32))
    assert draw.actions.tolist() == [[5.0, -1.0]]


def test_squashed_draws_stay_in_the_box() -> None:
    distribution = SquashedGaussian(np.array([0.0, -3.0]), np.array([10.0, 1.0]))
    params = np.tile(np.array([[0.0, 0.0, 2.0, 2.0]], np.float32), (1000, 1))
    draw = distribution.draw(params, np.random.default_rng(0))
    assert (draw.actions >= [0.0, -3.0]).all() and (draw.actions <= [10.0, 1.0]).all()
    assert draw.extras[PRE_TANH].shape == (1000, 2) and np.isfinite(draw.logp).all()


def test_the_squashed_density_integrates_to_1_over_the_box() -> None:
    distribution = SquashedGaussian(np.array([2.0]), np.array([10.0]))
    samples = np.linspace(-12, 12, 20_001).astype(np.float32)[:, None]
    params = np.tile(np.array([[0.3, -0.2]], np.float32), (len(samples), 1))
    actions = 6.0 + 4.0 * np.tanh(samples[:, 0].astype(np.float64))
    density = np.exp(distribution.log_prob(params, actions[:, None], {PRE_TANH: samples}).astype(np.float64))
    assert abs(np.trapezoid(density, actions) - 1.0) < 1e-4
    assert distribution.log_scale == pytest.approx(math.log(4.0))


def test_squashed_entropy_is_the_mean_of_the_negated_log_probability() -> None:
    distribution = SquashedGaussian(np.array([0.0, -3.0]), np.array([10.0, 1.0]))
    row = np.array([[0.5, -1.0, -0.5, 0.5]], np.float32)
    draw = distribution.draw(np.tile(row, (100_000, 1)), np.random.default_rng(0))
    assert abs(float(distribution.entropy(row)[0]) + float(draw.logp.mean())) < 0.01


def test_squashed_actions_alone_have_no_log_probability() -> None:
    distribution = SquashedGaussian(np.array([-1.0]), np.array([1.0]))
    with pytest.raises(BatchError, match="'pre_tanh'"):
        distribution.log_prob(np.zeros((1, 2), np.float32), np.zeros((1, 1), np.float32), {})


@pytest.mark.parametrize("distribution", KINDS[1:], ids=kind)
def test_log_probabilities_and_entropies_equal_those_of_torch(distribution: Distribution) -> None:
    torch = pytest.importorskip("torch")
    params = some_params(distribution, 16)
    k = distribution.outputs
    mean, log_std = torch.tensor(params[:, :k]).double(), torch.tensor(params[:, k:]).double()
    normal = torch.distributions.Normal(mean, log_std.exp())
    draw = distribution.draw(params, np.random.default_rng(0))
    if isinstance(distribution, SquashedGaussian):
        parts = [
            torch.distributions.TanhTransform(),
            torch.distributions.AffineTransform(torch.tensor([5.0, -1.0]), torch.tensor([5.0, 2.0])),
        ]
        reference = torch.distributions.TransformedDistribution(normal, parts)
        for transform in parts:
            transform._cache_size = 0
        value = reference.log_prob(torch.tensor(draw.actions).double().clamp(-2.999999, 9.999999)).sum(1)
        inside = np.abs(draw.extras[PRE_TANH]).max(axis=1) < 3  # torch inverts tanh, which is exact there only
        np.testing.assert_allclose(draw.logp[inside], value.numpy()[inside], rtol=1e-3, atol=1e-3)
        return
    value = normal.log_prob(torch.tensor(draw.actions.reshape(16, -1)).double()).sum(1)
    np.testing.assert_allclose(draw.logp, value.numpy(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(distribution.entropy(params), normal.entropy().sum(1).numpy(), rtol=1e-5)


# -- which distribution acts


def test_B092_an_unbounded_box_is_refused_by_squashing_only() -> None:
    space = spaces.Box(-np.inf, np.inf, (2,))
    with pytest.raises(SpaceError, match="cannot rescale an unbounded box"):
        distribution_for(space, squash=True)
    draw = distribution_for(space, squash=False).draw(np.zeros((3, 4), np.float32), np.random.default_rng(0))
    assert np.isfinite(draw.actions).all() and np.isfinite(draw.logp).all()


@pytest.mark.parametrize("high", [[np.inf, 1.0], [0.0, 1.0]])
def test_B093_half_bounded_and_flat_boxes_are_refused_by_squashing(high: list[float]) -> None:
    space = spaces.Box(np.array([0.0, -3.0], np.float32), np.array(high, np.float32))
    with pytest.raises(SpaceError, match="cannot rescale"):
        distribution_for(space, squash=True)


def test_bounds_at_the_largest_float32_do_not_overflow() -> None:
    largest = float(np.finfo(np.float32).max)
    distribution = SquashedGaussian(np.array([-largest]), np.array([largest]))
    draw = distribution.mode(np.array([[50.0, 0.0]], np.float32))
    assert draw.actions.tolist() == [[largest]] and np.isfinite(draw.logp).all()
    with pytest.raises(SpaceError, match="unbounded"):
        SquashedGaussian(np.array([-2 * largest]), np.array([2 * largest]))


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1, 1, (0,)),
        spaces.Text(3),
        spaces.Sequence(spaces.Discrete(2)),
        spaces.Graph(spaces.Box(0, 1, (2,)), None),
        spaces.OneOf([spaces.Discrete(2), spaces.Box(-1, 1, (2,))]),
    ],
    ids=lambda space: type(space).__name__,
)
def test_B096_what_cannot_be_acted_in_is_refused_by_name(space: Any) -> None:
    with pytest.raises(SpaceError, match=rf"^action space {type(space).__name__}.* cannot be acted in: \w+"):
        distribution_for(space, squash=False)
    nested = spaces.Dict(a=spaces.Tuple([spaces.Discrete(2), space]))
    with pytest.raises(SpaceError, match=rf"^action 'a.1' {type(space).__name__}.* cannot be acted in"):
        distribution_for(nested, squash=False)


def test_an_empty_action_space_is_refused() -> None:
    with pytest.raises(SpaceError, match="empty"):
        distribution_for(spaces.Tuple([]), squash=False)


def test_B092_the_part_that_cannot_be_squashed_is_named() -> None:
    space = spaces.Dict(free=spaces.Box(-np.inf, np.inf, (1,)), tight=spaces.Box(-1, 1, (1,)))
    with pytest.raises(SpaceError, match=r"^action free Box.*cannot rescale an unbounded box"):
        distribution_for(space, squash=True)


def test_the_parts_of_a_nested_draw_stand_side_by_side() -> None:
    space = spaces.Dict(arm=spaces.Box(-1.0, 1.0, (2,), np.float32), hand=spaces.Discrete(3))
    nested = distribution_for(space, squash=True)
    actions = {"arm": np.zeros((1, 2), np.float32), "hand": np.array([2])}
    sampled = nested.sampled(actions, {"pre_tanh.arm": np.array([[0.5, -4.0]], np.float32)})
    assert sampled.tolist() == [[0.5, -4.0, 2.0]] and sampled.dtype == np.float32
    choices = distribution_for(spaces.MultiDiscrete([[2, 3], [4, 2]]), squash=False)
    assert choices.sampled(np.array([[[1, 2], [3, 0]]]), {}).tolist() == [[1, 2, 3, 0]]
    with pytest.raises(BatchError, match=r"needs the columns pre_tanh\.arm"):
        nested.sampled(actions, {})


def test_parameters_are_outputs_and_then_the_free_ones() -> None:
    space = spaces.Dict(arm=spaces.Box(-1.0, 1.0, (2,), np.float32), hand=spaces.Discrete(3))
    nested = distribution_for(space, squash=False)
    outputs = np.array([[1.0, 2.0, 3.0, 4.0, 5.0]], np.float32)
    assert nested.params(outputs, np.array([6.0, 7.0], np.float32)).tolist() == [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]]
    # The means of a Gaussian are never forbidden.
    assert nested.forbidden(np.array([[True, False, True]])).tolist() == [[False, False, False, True, False]]
    assert Categorical(5).params(outputs, None) is outputs
