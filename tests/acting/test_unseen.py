"""What observations bring along for planners is seen by planners alone."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict

from rlcore.acting import FlatObs
from rlcore.acting.images import images_in
from rlcore.acting.unseen import is_unseen
from rlcore.errors import SpaceError
from rlcore.learning.custom_model import CustomInputs
from rlcore.sampling.filters import MeanStd, NoFilter, leaf_filters

BOARD = Box(0.0, 9.0, (3, 3, 2), np.float32)
SPACE = Dict(board=BOARD, model_state=Dict(grid=Box(-1, 8, (3, 3, 1), np.int16), moves=Box(-1, 8, (9,), np.int16)))
OBS = {
    "board": np.ones((2, 3, 3, 2), np.float32),
    "model_state.grid": np.full((2, 3, 3, 1), 7, np.int16),
    "model_state.moves": np.full((2, 9), 7, np.int16),
}


@pytest.mark.parametrize("leaf", ["model_state", "model_state.moves", "action_mask", "action_mask.hand"])
def test_what_is_no_feature(leaf: str) -> None:
    assert is_unseen(leaf)
    assert not is_unseen("my_" + leaf)


def test_networks_do_not_see_it() -> None:
    flat = FlatObs(SPACE)
    assert flat.size == 18
    np.testing.assert_array_equal(flat(OBS), np.ones((2, 18)))
    assert set(images_in(SPACE)) == {"board"}
    assert set(CustomInputs(SPACE, {}).shapes) == {"board"}


def test_there_has_to_be_something_else_to_see() -> None:
    with pytest.raises(SpaceError, match="has nothing to see"):
        FlatObs(Dict(model_state=Box(-1, 8, (9,), np.int16)))


def test_filters_leave_it_alone() -> None:
    kinds = {leaf: type(own) for leaf, own in leaf_filters(MeanStd, SPACE).items()}
    assert kinds == {"board": MeanStd, "model_state.grid": NoFilter, "model_state.moves": NoFilter}
