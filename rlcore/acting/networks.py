"""Multilayer perceptrons in numpy, and orthogonal matrices to start them from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.acting.model_config import Activation

Float32 = NDArray[np.float32]

#: How many rows go through the layers at once: what lies between two layers then stays in the processor's cache.
ROWS_AT_ONCE = 1024


def layer_names(prefix: str, hidden: int) -> list[str]:
    """``prefix.hidden_0`` ... ``prefix.out``: the layers of a network with ``hidden`` hidden ones, first to last."""
    return [*(f"{prefix}.hidden_{i}" for i in range(hidden)), f"{prefix}.out"]


def orthogonal(rows: int, columns: int, gain: float, rng: np.random.Generator) -> Float32:
    """``gain`` times a matrix ``[rows, columns]`` whose shorter side is orthonormal, uniform over such matrices."""
    q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    q *= np.where(np.diag(r) < 0.0, -1.0, 1.0)  # else the decomposition's own choice of signs would show
    return np.ascontiguousarray(gain * (q if rows >= columns else q.T), np.float32)


def _relu(x: Float32, out: Float32) -> Float32:
    return np.maximum(x, np.float32(0.0), out=out)


ACTIVATIONS: Mapping[str, Callable[..., Any]] = {"tanh": np.tanh, "relu": _relu}


class MLP:
    """The network whose weights are ``prefix.hidden_i.weight`` ... ``prefix.out.bias``: ``[n, in]`` to ``[n, out]``.

    Reads the arrays of ``weights`` as they are when it is called; results are new arrays.
    """

    def __init__(self, weights: Mapping[str, NDArray[Any]], prefix: str, activation: Activation) -> None:
        self._body = HiddenLayers(weights, prefix, activation)
        self._out = Linear(weights, f"{prefix}.out")

    def __call__(self, x: Float32) -> Float32:
        if len(x) <= ROWS_AT_ONCE:
            return self._out(self._body(x))
        parts = [x[begin : begin + ROWS_AT_ONCE] for begin in range(0, len(x), ROWS_AT_ONCE)]
        return np.concatenate([self._out(self._body(part)) for part in parts])


class HiddenLayers:
    """The layers ``prefix.hidden_0``, ``prefix.hidden_1`` ..., each followed by the activation; there may be none."""

    def __init__(self, weights: Mapping[str, NDArray[Any]], prefix: str, activation: Activation) -> None:
        count = sum(name.startswith(f"{prefix}.hidden_") and name.endswith(".weight") for name in weights)
        self._layers = [Linear(weights, name) for name in layer_names(prefix, count)[:-1]]
        self._activation = ACTIVATIONS[activation]

    def __call__(self, x: Float32) -> Float32:
        for layer in self._layers:
            x = layer(x)
            self._activation(x, out=x)
        return x


class Linear:
    """``x @ name.weight + name.bias``."""

    def __init__(self, weights: Mapping[str, NDArray[Any]], name: str) -> None:
        self._weight, self._bias = weights[f"{name}.weight"], weights[f"{name}.bias"]

    def __call__(self, x: Float32) -> Float32:
        x = x @ self._weight
        x += self._bias
        return x


def through_stacked(x: Float32, layers: Iterable[tuple[Float32, Float32]], activation: Callable[..., Any]) -> Float32:
    """What many networks of one shape give, each for rows of its own: ``x [networks, n, inputs]``, one product a layer.

    ``layers`` are ``(weights [networks, inputs, outputs], biases [networks, 1, outputs])``, first to last; between them
    is the activation, one of :data:`ACTIVATIONS`. The result ``[networks, n, outputs]`` is a new array.
    """
    for i, (weight, bias) in enumerate(layers):
        if i:
            activation(x, out=x)
        x = np.matmul(x, weight)
        x += bias
    return x
