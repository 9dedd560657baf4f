from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rlcore.acting import to_env
from rlcore.errors import SpaceError


def test_B091_discrete_actions_are_shifted_by_start() -> None:
    space = spaces.Discrete(1, start=2)
    actions = np.array([0, 0], np.int64)
    sent: Any = to_env(actions, space)
    assert sent.tolist() == [2, 2] and all(space.contains(action) for action in sent)
    assert actions.tolist() == [0, 0]


def test_B045_small_dtypes_do_not_overflow_on_the_way() -> None:
    space = spaces.Discrete(100, start=-100, dtype=np.int8)
    sent: Any = to_env(np.array([0, 99], np.int64), space)
    assert sent.tolist() == [-100, -1] and sent.dtype == np.int8


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_box_actions_are_clipped_and_cast(dtype: Any) -> None:
    space = spaces.Box(np.array([[-1.0, 0.1, -1.0]], dtype), np.array([[1.0, 0.7, np.inf]], dtype), dtype=dtype)
    actions = np.array([[[5.0, 0.0, 7.0]], [[0.5, 0.7, -2.0]]], np.float32)
    sent: Any = to_env(actions, space)
    assert sent.dtype == dtype and sent.shape == (2, 1, 3)
    assert all(space.contains(action) for action in sent)
    np.testing.assert_allclose(sent, [[[1.0, 0.1, 7.0]], [[0.5, 0.7, -1.0]]], rtol=1e-6)
    assert actions[0, 0, 0] == 5.0


def test_integer_boxes_are_rounded_not_cut() -> None:
    sent: Any = to_env(np.array([[0.9, -1.6, 300.0]], np.float32), spaces.Box(-2, 200, (3,), np.int16))
    assert sent.tolist() == [[1, -2, 200]] and sent.dtype == np.int16


def test_multi_discrete_and_multi_binary() -> None:
    shifted: Any = to_env(np.array([[0, 2]]), spaces.MultiDiscrete([2, 3], start=[-1, 5]))
    assert shifted.tolist() == [[-1, 7]]
    binary: Any = to_env(np.array([[0, 1]]), spaces.MultiBinary(2))
    assert binary.tolist() == [[0, 1]] and binary.dtype == np.int8


def test_nested_actions_go_leaf_by_leaf() -> None:
    space = spaces.Dict(arm=spaces.Box(-1, 1, (1,)), hand=spaces.Tuple([spaces.Discrete(2, start=1)]))
    sent: Any = to_env({"arm": np.array([[3.0]], np.float32), "hand.0": np.array([0])}, space)
    assert {name: array.tolist() for name, array in sent.items()} == {"arm": [[1.0]], "hand.0": [1]}
    with pytest.raises(SpaceError, match=r"leaves \['arm'\], the space has \['arm', 'hand.0'\]"):
        to_env({"arm": np.array([[3.0]], np.float32)}, space)


def test_spaces_that_cannot_be_acted_in_are_refused() -> None:
    with pytest.raises(SpaceError, match="Text"):
        to_env(np.zeros(1), spaces.Text(3))
