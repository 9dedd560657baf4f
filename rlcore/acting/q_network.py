"""QNetwork: a network that a :class:`QArchitecture` without encoders describes, in numpy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rlcore.acting.lstm import LSTM
from rlcore.acting.networks import ACTIVATIONS, Linear, layer_names
from rlcore.acting.q_architecture import Q, QArchitecture
from rlcore.acting.q_config import Support
from rlcore.policy_graph import State, Weights

Float32 = NDArray[np.float32]


class QNetwork:
    """Reads the weights of the network ``q`` as they are when it is made."""

    def __init__(self, architecture: QArchitecture, support: Support | None, weights: Weights) -> None:
        offsets = _offsets(architecture)
        self._activation = ACTIVATIONS[architecture.activation]
        self._hidden = [_Layer(weights, name, offsets) for name in layer_names(Q, len(architecture.hidden))[:-1]]
        self._lstm = LSTM(weights, f"{Q}.lstm") if architecture.lstm else None
        self._heads = [_Layer(weights, f"{Q}.{head}", offsets) for head in architecture.heads]
        self._actions, self._atoms = architecture.actions, architecture.atoms
        self._support = None if support is None else returns_of(support)

    def __call__(self, x: Float32, state: State, noise: Float32 | None = None) -> tuple[Float32, State]:
        """Values ``[n, actions]`` of inputs ``[n, features]``, and the state after them; with ``noise [noise_size]``
        where that is given."""
        for layer in self._hidden:
            x = layer(x, noise)
            self._activation(x, out=x)
        after: State = ()
        if self._lstm is not None:
            x, cell = self._lstm(x, *state)
            after = (x, cell)
        return self._values([head(x, noise) for head in self._heads]), after

    def _values(self, heads: list[Float32]) -> Float32:
        outputs = heads[-1]
        if len(heads) == 1 and self._support is None:
            return outputs
        outputs = outputs.reshape(len(outputs), self._actions, self._atoms)
        if len(heads) > 1:
            outputs = outputs - outputs.mean(axis=1, keepdims=True) + heads[0][:, None]
        if self._support is None:
            return outputs[:, :, 0]
        weights = np.exp(outputs - outputs.max(axis=2, keepdims=True))
        return np.asarray(weights @ self._support / weights.sum(axis=2), np.float32)


class _Layer:
    """A dense layer, with noise on its weights where it has any and a draw is given."""

    def __init__(self, weights: Weights, name: str, offsets: Mapping[str, int]) -> None:
        self._linear = Linear(weights, name)
        noisy = name in offsets
        self._noise = (weights[f"{name}.weight_noise"], weights[f"{name}.bias_noise"]) if noisy else None
        self._at = offsets.get(name, 0)

    def __call__(self, x: Float32, noise: Float32 | None) -> Float32:
        plain = self._linear(x)
        if noise is None or self._noise is None:
            return plain
        weight, bias = self._noise
        rows, columns = weight.shape
        inputs, outputs = np.split(noise[self._at : self._at + rows + columns], [rows])
        return np.asarray(plain + ((x * inputs) @ weight + bias) * outputs)


def _offsets(architecture: QArchitecture) -> dict[str, int]:
    """Where the noise of each layer begins in a draw: its inputs', then its outputs'."""
    offsets, at = {}, 0
    for layer, (rows, columns) in architecture.noisy_layers().items():
        offsets[layer], at = at, at + rows + columns
    return offsets


def returns_of(support: Support) -> Float32:
    """The returns of a support, float32 ``[atoms]``."""
    return np.linspace(support.low, support.high, support.atoms, dtype=np.float32)
