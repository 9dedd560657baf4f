from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rlcore.acting import FlatObs, distribution_for, with_batch_axis
from rlcore.acting.observations import check_values
from rlcore.errors import SpaceError


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4)])
def test_boxes_of_any_shape_and_dtype_become_a_float32_matrix(dtype: Any, shape: tuple[int, ...]) -> None:
    flatten = FlatObs(spaces.Box(0, 100, shape, dtype))
    size = int(np.prod(shape))
    obs = np.arange(5 * size).reshape(5, *shape).astype(dtype)
    flat = flatten(obs)
    assert flatten.size == size and flat.dtype == np.float32
    assert flat.tolist() == np.arange(5 * size).reshape(5, size).tolist()


def test_discrete_observations_are_one_hot() -> None:
    flat = FlatObs(spaces.Discrete(3, start=5))(np.array([5, 7]))
    assert flat.tolist() == [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]


def test_B102_leaves_stand_in_the_order_of_the_space() -> None:
    space = spaces.Dict(a=spaces.Box(-1, 1, (2,)), b=spaces.Dict(c=spaces.Discrete(2), d=spaces.MultiBinary(1)))
    flatten = FlatObs(space)
    obs = {"b.d": np.array([[1]]), "b.c": np.array([1]), "a": np.array([[0.5, 0.25]])}
    assert flatten(obs).tolist() == [[0.5, 0.25, 0.0, 1.0, 1.0]]
    assert flatten.size == 5
    with pytest.raises(ValueError, match="expected"):
        flatten({"a": obs["a"]})
    with pytest.raises(ValueError, match="one array was given"):
        flatten(np.zeros((1, 5)))


@pytest.mark.parametrize("given", [(2, 3), (4, 3, 2), (4, 2), (4, 6), (1, 4, 2, 3)])
def test_B110_other_shapes_are_refused_never_broadcast(given: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"expected \[n, 2, 3\]"):
        FlatObs(spaces.Box(-1, 1, (2, 3)))(np.zeros(given, np.float32))


def test_of_a_wrong_image_one_number_is_shown() -> None:
    image = np.full((1, 4, 3, 3), 9.0)
    image[0, 2, 1, 0] = 0.5
    with pytest.raises(ValueError, match=r"^observation a is outside its space: 0\.5 at \[2, 1, 0\], and 0 more"):
        check_values({"a": image}, spaces.Dict(a=spaces.Box(0, 255, (4, 3, 3), np.uint8)))


@pytest.mark.parametrize("space", [spaces.Discrete(2**40), spaces.MultiDiscrete([2**23, 2**23, 2])], ids=str)
def test_more_options_than_memory_has_room_for_are_refused(space: Any) -> None:
    with pytest.raises(SpaceError, match=r"^observation space .* options; there is a network column for each"):
        FlatObs(space)
    with pytest.raises(SpaceError, match=r"^action 'card' .* options; there is a network column for each"):
        distribution_for(spaces.Dict(card=space), squash=False)


def test_a_part_without_numbers_stands_beside_others() -> None:
    flatten = FlatObs(spaces.Dict(none=spaces.Box(-1, 1, (3, 0)), some=spaces.Box(-1, 1, (2,))))
    assert flatten({"none": np.zeros((4, 3, 0)), "some": np.ones((4, 2))}).tolist() == [[1.0, 1.0]] * 4


def test_spaces_without_numbers_are_refused() -> None:
    with pytest.raises(SpaceError, match=r"^observation 'note' Text.*cannot be seen: texts have no fixed number"):
        FlatObs(spaces.Dict(note=spaces.Text(4)))
    with pytest.raises(SpaceError, match="nothing to see"):
        FlatObs(spaces.Box(0, 1, (0,)))


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_B110_the_space_tells_one_observation_from_many(shape: tuple[int, ...]) -> None:
    space = spaces.Box(-1, 1, shape)
    for given, alone, rows in ((shape, True, 1), ((1, *shape), False, 1), ((4, *shape), False, 4)):
        batched, single = with_batch_axis(np.zeros(given, np.float32), space)
        assert isinstance(batched, np.ndarray)
        assert batched.shape == (rows, *shape) and single is alone


def test_B110_dict_observations_of_one_and_of_a_batch_of_one() -> None:
    space = spaces.Dict(a=spaces.Box(-1, 1, (2,)), b=spaces.Discrete(3))
    one, single = with_batch_axis({"a": np.zeros(2), "b": np.int64(1)}, space)
    assert single and {name: array.shape for name, array in dict(one).items()} == {"a": (1, 2), "b": (1,)}
    batch, single = with_batch_axis({"a": np.zeros((1, 2)), "b": np.array([1])}, space)
    assert not single and {name: array.shape for name, array in dict(batch).items()} == {"a": (1, 2), "b": (1,)}


@pytest.mark.parametrize(
    ("obs", "message"),
    [
        ({"a": np.zeros(2), "b": np.array([1])}, "disagree"),
        ({"a": np.zeros((3, 2)), "b": np.array([1, 2])}, "disagree"),
        ({"a": np.zeros(3), "b": np.int64(1)}, r"observation a of shape \(3,\)"),
        ({"a": np.zeros((2, 2, 2)), "b": np.int64(1)}, r"observation a of shape \(2, 2, 2\)"),
        ({"a": np.zeros(2)}, "leaves"),
    ],
)
def test_B110_leaves_that_do_not_fit_are_refused(obs: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        with_batch_axis(obs, spaces.Dict(a=spaces.Box(-1, 1, (2,)), b=spaces.Discrete(3)))
