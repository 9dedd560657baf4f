"""LayeredModel: encoders of images, hidden layers and LSTMs, in one network for policy and values or in two."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.acting import LOG_STD, Architecture, ModelConfig
from rlcore.acting.architecture import POLICY, VALUE
from rlcore.columns import Columns
from rlcore.policy_graph import State, Weights
from rlcore_tf.body import TFBody
from rlcore_tf.columns import Minibatch, Specs
from rlcore_tf.layers import Arithmetic, lstm
from rlcore_tf.model import Heads, Model
from rlcore_tf.pieces import grid_in, state_of


class LayeredModel(Model):
    """What an :class:`rlcore.acting.Architecture` describes."""

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        model: ModelConfig,
        architecture: Architecture,
        arithmetic: Arithmetic,
    ) -> None:
        self._architecture = architecture
        self._arithmetic = arithmetic
        self._body = TFBody(observation_space, model, architecture, arithmetic)
        self.shapes = architecture.shapes()
        self.state_shapes = tuple((size,) for size in architecture.state_sizes)
        self.values_while_acting = architecture.value and (bool(architecture.lstm) or architecture.shared_value)
        self.heavy = bool(architecture.encoders)

    def init(self, rng: np.random.Generator, log_std: float) -> Weights:
        return self._architecture.init(rng, log_std=log_std)

    def initial_state(self, n: int) -> State:
        return tuple(np.zeros((n, *shape), np.float32) for shape in self.state_shapes)

    def specs(self) -> Specs:
        return self._body.specs()

    def columns(self, obs: Columns) -> dict[str, NDArray[Any]]:
        return self._body.columns(obs)

    def __call__(self, weights: Mapping[str, Any], inputs: Minibatch) -> Heads:
        own, layer = self._architecture, functools.partial(self._arithmetic.dense, weights)
        read = self._body.read(inputs)
        features, after = [], []
        for i, network in enumerate(own.networks):
            x = self._body(weights, network, read, layer)
            if own.lstm:
                before = state_of(inputs)[2 * i : 2 * i + 2]
                x, *last = lstm(self._arithmetic, weights, f"{network}.lstm", x, grid_in(inputs), *before)
                after += last
            features.append(x)
        values = layer(f"{VALUE}.out", features[-1]) if own.value else None
        if values is not None and own.value_outputs == 1:
            values = values[:, 0]
        return Heads(layer(f"{POLICY}.out", features[0]), weights.get(LOG_STD), values, tuple(after))
