"""The residual tower that keeps the size of a board."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from rlcore.acting.architecture import Architecture
from rlcore.acting.model_config import ModelConfig
from rlcore.errors import ConfigError
from rlcore.validation import validate

BOARD = Dict({"action_mask": MultiBinary(7), "board": Box(0, 1, (6, 7, 2), np.uint8)})


def test_the_tower_keeps_the_size_of_a_board() -> None:
    model = ModelConfig.model_validate({"encoder": "tower", "tower": {"blocks": 2, "channels": 8}, "hidden": [16]})
    shapes = Architecture.of(BOARD, Discrete(7), model).shapes()
    convolutions = {name: shape for name, shape in shapes.items() if name.endswith("weight") and len(shape) == 4}
    assert convolutions == {
        "shared.image.board.tower.conv.weight": (3, 3, 2, 8),
        "shared.image.board.tower.block_0.conv_0.weight": (3, 3, 8, 8),
        "shared.image.board.tower.block_0.conv_1.weight": (3, 3, 8, 8),
        "shared.image.board.tower.block_1.conv_0.weight": (3, 3, 8, 8),
        "shared.image.board.tower.block_1.conv_1.weight": (3, 3, 8, 8),
    }
    assert shapes["shared.hidden_0.weight"] == (6 * 7 * 8, 16)


def test_settings_of_a_tower_need_one() -> None:
    with pytest.raises(ConfigError, match="read with encoder: tower only"):
        validate(ModelConfig, {"tower": {"blocks": 2}}, "model")
