"""LayeredModel: encoders of images, hidden layers and LSTMs, in one network for policy and values or in two."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rlcore.acting import LOG_STD, Architecture, ModelConfig
from rlcore.acting.architecture import POLICY, VALUE
from rlcore.columns import Columns
from rlcore.policy_graph import State, Weights
from rlcore_torch.body import TorchBody, leaf_of, linear, lstm
from rlcore_torch.columns import Minibatch
from rlcore_torch.model import Heads, Model
from rlcore_torch.sequences import BATCH_SIZES, state_of


class LayeredModel(Model):
    """What an :class:`rlcore.acting.Architecture` describes."""

    def __init__(
        self, observation_space: gymnasium.Space[Any], model: ModelConfig, architecture: Architecture
    ) -> None:
        self._architecture = architecture
        self.body = TorchBody(observation_space, model, architecture)
        self._shapes = architecture.shapes()
        self.layout = [leaf_of(name, shape) for name, shape in self._shapes.items()]
        self.recurrent = bool(architecture.lstm)
        self.values_while_acting = architecture.value and (self.recurrent or architecture.shared_value)
        self.recordable = not (self.recurrent or architecture.encoders)

    def init(self, rng: np.random.Generator, log_std: float) -> Weights:
        return self._architecture.init(rng, log_std=log_std)

    def initial_state(self, n: int) -> State:
        return tuple(np.zeros((n, size), np.float32) for size in self._architecture.state_sizes)

    def columns(self, obs: Columns) -> dict[str, NDArray[Any]]:
        return self.body.columns(obs)

    def __call__(self, leaves: Sequence[Tensor], inputs: Minibatch) -> Heads:
        weights = dict(zip(self._shapes, leaves, strict=True))
        layer = functools.partial(linear, weights)
        read = self.body.read(inputs)
        state = [part.to(leaves[0].dtype) for part in state_of(inputs)]
        after, features = [], []
        for i, network in enumerate(self._architecture.networks):
            x = self.body(weights, network, read, layer)
            if self.recurrent:
                x, *own = lstm(weights, f"{network}.lstm", x, inputs[BATCH_SIZES], state[2 * i], state[2 * i + 1])
                after += own
            features.append(x)
        values = layer(f"{VALUE}.out", features[-1]) if self._architecture.value else None
        return Heads(layer(f"{POLICY}.out", features[0]), weights.get(LOG_STD), values, tuple(after))
