from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rlcore.errors import SpaceError
from rlcore.sampling.filters import MeanStd, NoFilter, RunningStatistics, leaf_filters, merge_deltas

BOX = spaces.Box(-np.inf, np.inf, (2,), np.float32)
PARTS = st.lists(
    st.integers(0, 6).flatmap(lambda n: arrays(np.float64, (n, 3), elements=st.floats(-1e6, 1e6))),
    min_size=1,
    max_size=6,
)


def statistics_of(*parts: np.ndarray) -> RunningStatistics:
    statistics = RunningStatistics(parts[0].shape[1:])
    for part in parts:
        statistics.update(part)
    return statistics


def fitted(rows: np.ndarray, clip: float = 10.0) -> MeanStd:
    observer = MeanStd(spaces.Box(-np.inf, np.inf, rows.shape[1:], np.float32), clip)
    observer.observe(rows)
    observer.apply(observer.take_delta())
    return observer


@given(PARTS)
@settings(deadline=None)
def test_merged_equals_pooled(parts: list[np.ndarray]) -> None:
    merged = RunningStatistics((3,))
    for part in parts:
        merged.merge(statistics_of(part))
    updated = statistics_of(*parts)
    pooled = np.concatenate(parts)
    assert merged.count == updated.count == len(pooled)
    if len(pooled):
        scale = max(1.0, float(np.abs(pooled).max()))
        for statistics in (merged, updated):
            np.testing.assert_allclose(statistics.mean, pooled.mean(axis=0), rtol=1e-12, atol=1e-12 * scale)
            expected = np.square(pooled - pooled.mean(axis=0)).sum(axis=0)
            np.testing.assert_allclose(statistics.m2, expected, rtol=1e-12, atol=1e-12 * scale**2)


def test_literal_statistics() -> None:
    statistics = statistics_of(np.array([[1.0], [3.0]]), np.array([[5.0]]))
    assert (statistics.count, statistics.mean.tolist(), statistics.m2.tolist()) == (3, [3.0], [8.0])
    np.testing.assert_allclose(statistics.std, [np.sqrt(8 / 3)])


def test_float32_images_far_from_zero_keep_their_variance() -> None:
    rows = (1e6 + np.arange(4)[:, None, None] * np.ones((4, 2, 2))).astype(np.float32)
    np.testing.assert_allclose(statistics_of(rows[:1], rows[1:]).m2, np.full((2, 2), 5.0), rtol=1e-9)


@pytest.mark.parametrize("shape", [(2,), (4, 3), (2, 2, 1)])
def test_rows_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"cannot take rows"):
        RunningStatistics((2,)).update(np.zeros(shape))


def test_statistics_round_trip() -> None:
    statistics = statistics_of(np.random.default_rng(0).normal(size=(5, 2)))
    copy = RunningStatistics.of(statistics.get_state())
    rows = np.random.default_rng(1).normal(size=(3, 2))
    statistics.update(rows)
    copy.update(rows)
    assert copy.m2.tobytes() == statistics.m2.tobytes() and copy.count == 8
    with pytest.raises(ValueError, match="cannot go on from"):
        RunningStatistics((3,)).set_state(statistics.get_state())


def test_normalises_by_what_was_applied() -> None:
    observer = fitted(np.array([[1.0, 10.0], [3.0, 10.0]], np.float32))
    seen = observer.normalise(np.array([[3.0, 10.0], [2.0, 11.0]], np.float32))
    assert seen.tolist() == [[1.0, 0.0], [0.0, 1.0]]  # the second number never varied: it is only centred
    assert seen.dtype == np.float32


def test_without_statistics_observations_pass_in_float32() -> None:
    seen = MeanStd(BOX).normalise(np.array([[300.0, -300.0]]))
    assert seen.tolist() == [[300.0, -300.0]] and seen.dtype == np.float32


def test_clips() -> None:
    observer = fitted(np.array([[1.0], [3.0]]), clip=5.0)
    assert observer.normalise(np.array([[100.0], [-100.0]])).tolist() == [[5.0], [-5.0]]


def test_rounding_noise_of_a_constant_is_not_blown_up() -> None:
    observer = fitted(np.full((1000, 1), 0.1))
    assert abs(float(observer.normalise(np.array([[0.1]]))[0, 0])) < 1e-6


def test_integer_observations_of_any_shape() -> None:
    rows = np.stack([np.zeros((2, 2), np.uint8), np.full((2, 2), 200, np.uint8)])
    observer = fitted(rows)
    assert observer.normalise(rows).tolist() == [[[-1.0, -1.0]] * 2, [[1.0, 1.0]] * 2]


def test_statistics_stay_fixed_until_a_delta_is_applied() -> None:
    observer = fitted(np.array([[1.0, 1.0], [3.0, 3.0]]))
    observer.observe(np.full((50, 2), 100.0))
    assert observer.normalise(np.array([[3.0, 3.0]])).tolist() == [[1.0, 1.0]]
    assert observer.version == 1
    observer.apply(observer.take_delta())
    assert observer.version == 2 and observer.statistics.count == 52
    assert observer.take_delta() == {}
    observer.apply({})
    assert observer.version == 2


def test_B078_samplers_and_owner_hold_the_statistics_of_all_rows() -> None:
    rng = np.random.default_rng(0)
    owner, samplers = MeanStd(BOX), [MeanStd(BOX) for _ in range(3)]
    seen = []
    for _ in range(2):
        for sampler in samplers:
            rows = rng.normal(size=(7, 2))
            sampler.observe(rows)
            seen.append(rows)
        owner.apply(merge_deltas([sampler.take_delta() for sampler in samplers]))
        for sampler in samplers:
            sampler.set_statistics(owner.get_statistics())
    pooled = np.concatenate(seen)
    for one in (owner, *samplers):
        assert one.statistics.count == 42 and one.version == 2
        np.testing.assert_allclose(one.statistics.mean, pooled.mean(axis=0), rtol=1e-12)
    assert merge_deltas([{}, {}]) == {}


def test_taking_over_statistics_keeps_the_own_delta() -> None:
    sampler = MeanStd(BOX)
    sampler.observe(np.ones((4, 2)))
    sampler.set_statistics(fitted(np.zeros((5, 2))).get_statistics())
    assert sampler.statistics.count == 5
    assert sampler.take_delta()["count"] == 4


def test_B078_a_restored_filter_goes_on_exactly() -> None:
    rng = np.random.default_rng(0)
    observer = fitted(rng.normal(size=(9, 2)))
    observer.observe(rng.normal(size=(3, 2)))
    restored = MeanStd(BOX)
    restored.set_state(pickle.loads(pickle.dumps(observer.get_state())))
    for one in (observer, restored):
        one.apply(one.take_delta())
    assert restored.version == observer.version == 2
    obs = rng.normal(size=(4, 2))
    assert restored.normalise(obs).tobytes() == observer.normalise(obs).tobytes()


def test_no_filter_hands_on_what_it_is_given() -> None:
    observer = NoFilter(BOX)
    obs = np.ones((3, 2), np.float32)
    observer.observe(obs)
    assert observer.normalise(obs) is obs and observer.output_space() is BOX
    assert json.dumps([observer.take_delta(), observer.get_state(), observer.get_statistics()]) == "[{}, {}, {}]"


def test_the_policy_sees_an_unbounded_float32_box() -> None:
    assert MeanStd(spaces.Box(0, 255, (3,), np.uint8)).output_space() == spaces.Box(-np.inf, np.inf, (3,), np.float32)


def test_B101_each_leaf_has_its_own_filter() -> None:
    space = spaces.Dict(camera=spaces.Box(0, 255, (2, 2), np.uint8), mode=spaces.Discrete(3))
    filters = leaf_filters(MeanStd, space)
    assert {name: type(one) for name, one in filters.items()} == {"camera": MeanStd, "mode": NoFilter}
    assert {name: type(one) for name, one in leaf_filters(NoFilter, space).items()} == dict.fromkeys(filters, NoFilter)


def test_a_space_without_a_box_cannot_be_normalised() -> None:
    with pytest.raises(SpaceError, match=r"mean_std .*Discrete\(3\)"):
        leaf_filters(MeanStd, spaces.Discrete(3))
