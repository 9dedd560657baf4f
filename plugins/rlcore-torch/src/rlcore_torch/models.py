"""Which model a policy graph of this package computes with."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from rlcore.acting import Architecture, ModelConfig
from rlcore_torch.custom import CustomModel
from rlcore_torch.layered import LayeredModel
from rlcore_torch.model import Model
from rlcore_torch.twin_mlp import TwinMLP


def model_for(
    observation_space: gymnasium.Space[Any],
    action_space: gymnasium.Space[Any],
    model: ModelConfig,
    *,
    squash: bool,
    value: bool,
    value_outputs: int = 1,
    rng: np.random.Generator,
) -> Model:
    """With ``value_outputs`` the last layer of the values gives so many; custom models give one.

    ``SpaceError`` for spaces that it cannot see or act in, ``ConfigError`` where ``model`` does not fit them."""
    if model.custom is not None:
        return CustomModel(observation_space, action_space, model, squash=squash, value=value, rng=rng)
    architecture = Architecture.of(
        observation_space, action_space, model, squash=squash, value=value, value_outputs=value_outputs
    )
    if architecture.encoders or architecture.lstm or architecture.shared_value:
        return LayeredModel(observation_space, model, architecture)
    return TwinMLP(observation_space, model, architecture)
