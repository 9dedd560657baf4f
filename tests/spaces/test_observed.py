"""Observations of every space on their way into a network: one-hot, scaled, or refused with a reason."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import Box, Dict, MultiDiscrete, Tuple
from support.spaces import OBSERVATIONS, samples

from rlcore.acting import FlatObs, remarks_on
from rlcore.columns import concatenate, take
from rlcore.errors import ConfigError, SpaceError
from rlcore.sampling.filters import MeanStd, NoFilter, leaf_filters

IMAGE = Box(0, 255, (2, 2, 3), np.uint8)


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_every_space_becomes_finite_float32(name: str) -> None:
    flatten = FlatObs(OBSERVATIONS[name])
    flat = flatten(samples(OBSERVATIONS[name], 5))
    assert flat.shape == (5, flatten.size) and flat.dtype == np.float32 and np.isfinite(flat).all()
    assert flatten(take(samples(OBSERVATIONS[name], 1), slice(0))).shape == (0, flatten.size)


def test_rows_are_concatenated_leaf_by_leaf() -> None:
    plain = concatenate([np.array([[1], [2]]), np.array([[3]])])
    assert np.array_equal(plain, [[1], [2], [3]])  # type: ignore[arg-type]
    nested = concatenate([{"a": np.array([1]), "b": np.array([2.0])}, {"a": np.array([3]), "b": np.array([4.0])}])
    assert isinstance(nested, dict) and {leaf: own.tolist() for leaf, own in nested.items()} == {
        "a": [1, 3],
        "b": [2.0, 4.0],
    }


def test_multi_discrete_is_one_hot_by_component() -> None:
    flatten = FlatObs(MultiDiscrete([[2, 3], [1, 2]], start=[[0, -1], [4, 7]]))
    assert flatten(np.array([[[1, -1], [4, 8]], [[0, 1], [4, 7]]])).tolist() == [
        [0, 1, 1, 0, 0, 1, 0, 1],
        [1, 0, 0, 0, 1, 1, 1, 0],
    ]


def test_B099_an_image_of_255s_and_the_same_already_scaled_are_ones() -> None:
    raw = FlatObs(IMAGE)(np.full((2, 2, 2, 3), 255, np.uint8))
    scaled = FlatObs(Box(0.0, 1.0, (2, 2, 3), np.float32))(np.ones((2, 2, 2, 3), np.float32))
    assert (raw == 1.0).all() and (scaled == 1.0).all()
    stack = FlatObs(Box(0, 255, (4, 2, 2, 3), np.uint8))(np.full((1, 4, 2, 2, 3), 51, np.uint8))
    np.testing.assert_allclose(stack, 0.2, rtol=1e-6)


@pytest.mark.parametrize(
    "space",
    [
        Box(0, 255, (4,), np.uint8),
        Box(0, 255, (4, 4), np.uint8),
        Box(0, 254, (2, 2, 3), np.uint8),
        Box(0, 255, (2, 2, 3), np.int16),
        Box(0, 255, (2, 2, 3), np.float32),
    ],
    ids=str,
)
def test_what_is_no_image_by_the_rule_is_read_as_it_is(space: Any) -> None:
    ones = np.ones((1, *space.shape), space.dtype)
    assert (FlatObs(space)(ones * 7) == 7.0).all()


def test_B100_a_grid_of_codes_is_left_alone_where_the_user_says_so() -> None:
    codes = np.arange(3 * 7 * 7 * 3, dtype=np.uint8).reshape(3, 7, 7, 3)
    space = Box(0, 255, (7, 7, 3), np.uint8)
    assert FlatObs(space, {"obs": False})(codes).tolist() == codes.reshape(3, -1).tolist()
    assert FlatObs(space)(codes).max() <= 1.0
    (remark,) = remarks_on(space, {})
    assert "'obs', uint8 in [0, 255] of shape (7, 7, 3), is taken for an image" in remark.text and not remark.warns
    assert "model.scale.obs: false" in remark.text
    assert remarks_on(space, {"obs": False}) == remarks_on(space, {"obs": True}) == []
    both = Dict([("arm", Dict(camera=space)), ("camera", space), ("grid", space)])
    flat = FlatObs(both, {"grid": False})({"grid": codes, "camera": codes, "arm.camera": codes})
    assert flat[:, -147:].max() > 1.0 and flat[:, :-147].max() <= 1.0
    assert [remark.text.split("'")[1] for remark in remarks_on(both, {"grid": False})] == ["arm.camera", "camera"]


def test_B099_a_float_image_gets_a_warning_unless_the_user_has_decided() -> None:
    space = Dict(camera=Box(0, 255, (2, 2, 3), np.float32), vector=Box(0, 255, (3,), np.float32))
    (remark,) = remarks_on(space, {})
    assert remark.warns and "'camera' of shape (2, 2, 3) looks like an image, but is float32" in remark.text
    assert remarks_on(space, {"camera": False}) == []
    flat = FlatObs(space, {"camera": True})({"camera": np.full((1, 2, 2, 3), 255.0), "vector": np.full((1, 3), 255.0)})
    assert flat.tolist() == [[1.0] * 12 + [255.0] * 3]


def test_a_grey_frame_without_channels_gets_a_warning_unless_the_user_has_decided() -> None:
    space = Dict(frame=Box(0, 255, (84, 84), np.uint8), board=Box(0, 255, (19, 19), np.uint8))
    (remark,) = remarks_on(space, {})
    assert remark.warns and "'frame' of shape (84, 84) looks like a frame in grey" in remark.text
    assert remarks_on(space, {"frame": False}) == remarks_on(space, {"frame": True}) == []
    (stacked,) = remarks_on(Box(0, 255, (1, 84, 84), np.uint8), {})
    assert not stacked.warns


def test_scale_maps_any_bounds_to_0_and_1() -> None:
    space = Box(np.array([-2.0, 10.0], np.float32), np.array([2.0, 20.0], np.float32))
    obs = np.array([[-2.0, 20.0], [1.0, 12.5]], np.float32)
    before = obs.copy()
    assert FlatObs(space, {"obs": True})(obs).tolist() == [[0.0, 1.0], [0.75, 0.25]]
    assert (obs == before).all()
    assert FlatObs(Box(-2, 6, (1,), np.int64), {"obs": True})(np.array([[0]])).tolist() == [[0.25]]


@pytest.mark.parametrize(
    ("space", "scale", "message"),
    [
        (Dict(camera=IMAGE), {"camra": True}, "the observation has no part 'camra'; its parts are: camera"),
        (IMAGE, {"": True}, "no part ''; its parts are: obs"),
        (Dict(a=spaces.Discrete(2)), {"a": True}, "'a' is Discrete.*; only a Box can be scaled"),
        (Box(-np.inf, 1, (1,)), {"obs": True}, r"the bounds of 'obs', .* cannot be mapped to \[0, 1\]"),
        (Box(1, 1, (1,)), {"obs": True}, "cannot be mapped"),
    ],
)
def test_a_scale_that_does_not_fit_is_refused(space: Any, scale: dict[str, bool], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FlatObs(space, scale)


@pytest.mark.parametrize(
    "space",
    [spaces.Text(4), spaces.Graph(IMAGE, None), spaces.Sequence(IMAGE), spaces.OneOf([IMAGE, IMAGE])],
    ids=lambda space: type(space).__name__,
)
def test_spaces_without_a_fixed_size_are_refused_with_a_reason(space: Any) -> None:
    with pytest.raises(SpaceError, match=rf"^observation 'a.0' {type(space).__name__}.* cannot be seen: \w+.*wrapper"):
        FlatObs(Dict(a=Tuple([space])))
    with pytest.raises(SpaceError, match=rf"^observation space {type(space).__name__}"):
        FlatObs(space)


def test_B101_each_part_has_its_own_rule() -> None:
    space = Dict(img=Box(0, 255, (84, 84, 3), np.uint8), vec=Box(-np.inf, np.inf, (4,), np.float32))
    filters = leaf_filters(MeanStd, space)
    assert {leaf: type(one) for leaf, one in filters.items()} == {"img": NoFilter, "vec": MeanStd}
    assert filters["img"].output_space() == space["img"]
    seen = {"img": np.full((2, 84, 84, 3), 255, np.uint8), "vec": np.array([[1.0] * 4, [3.0] * 4], np.float32)}
    filters["vec"].observe(seen["vec"])
    filters["vec"].apply(filters["vec"].take_delta())
    flat = FlatObs(space)({leaf: filters[leaf].normalise(array) for leaf, array in seen.items()})
    assert (flat[:, :-4] == 1.0).all() and flat[:, -4:].tolist() == [[-1.0] * 4, [1.0] * 4]


def test_filters_leave_masks_alone_and_refuse_to_do_nothing() -> None:
    space = Dict(features=Box(-1, 1, (2,)), action_mask=Box(0, 1, (3,), np.int8))
    kinds = {leaf: type(one) for leaf, one in leaf_filters(MeanStd, space).items()}
    assert kinds == {"features": MeanStd, "action_mask": NoFilter}
    with pytest.raises(SpaceError, match="mean_std normalises no images"):
        leaf_filters(MeanStd, IMAGE)
    with pytest.raises(SpaceError, match="mean_std normalises no images"):
        leaf_filters(MeanStd, Dict(camera=IMAGE))


def test_reading_never_warns() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for space in OBSERVATIONS.values():
            FlatObs(space)(samples(space, 2))
