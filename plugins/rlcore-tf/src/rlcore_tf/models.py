"""Which model a policy graph of this package computes with."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from rlcore.acting import Architecture, ModelConfig
from rlcore_tf.layered import LayeredModel
from rlcore_tf.layers import Arithmetic
from rlcore_tf.model import Model


def model_for(
    observation_space: gymnasium.Space[Any],
    action_space: gymnasium.Space[Any],
    model: ModelConfig,
    arithmetic: Arithmetic,
    *,
    squash: bool,
    value: bool,
    value_outputs: int = 1,
    rng: np.random.Generator,
) -> Model:
    """With ``value_outputs`` the last layer of the values gives so many; custom models give one.

    ``SpaceError`` for spaces that it cannot see or act in, ``ConfigError`` where ``model`` does not fit them."""
    if model.custom is not None:
        from rlcore_tf.custom import CustomModel  # which imports Keras, seconds

        return CustomModel(observation_space, action_space, model, arithmetic, squash=squash, value=value, rng=rng)
    architecture = Architecture.of(
        observation_space, action_space, model, squash=squash, value=value, value_outputs=value_outputs
    )
    return LayeredModel(observation_space, model, architecture, arithmetic)
