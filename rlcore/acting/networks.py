"""Multilayer perceptrons in numpy, and the one initialisation that all frameworks start from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt, PositiveInt

from rlcore.policy_graph import GraphConfig, Weights

Float32 = NDArray[np.float32]


class ModelConfig(GraphConfig):
    """The model section of a policy's config: ``hidden`` layer sizes, their activation, units of an LSTM (0: none).

    ``scale`` says of parts of the observation, by dotted name (``obs`` where it has no parts), whether their bounds are
    mapped to [0, 1]; without it that is done to uint8 images (:mod:`rlcore.acting.scaling`).
    """

    hidden: tuple[PositiveInt, ...] = (64, 64)
    activation: Literal["tanh", "relu"] = "tanh"
    lstm: NonNegativeInt = 0
    scale: dict[str, bool] = {}


def layer_names(prefix: str, hidden: int) -> list[str]:
    """``prefix.hidden_0`` ... ``prefix.out``: the layers of a network with ``hidden`` hidden ones, first to last."""
    return [*(f"{prefix}.hidden_{i}" for i in range(hidden)), f"{prefix}.out"]


def mlp_shapes(prefix: str, sizes: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """The names and shapes of the weights of a network with ``sizes`` ``(in, hidden ..., out)``."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, rows, columns in zip(layer_names(prefix, len(sizes) - 2), sizes[:-1], sizes[1:], strict=True):
        shapes[f"{name}.weight"] = (rows, columns)
        shapes[f"{name}.bias"] = (columns,)
    return shapes


def init_mlp(prefix: str, sizes: Sequence[int], out_gain: float, rng: np.random.Generator) -> Weights:
    """Orthogonal weights float32 ``[in, out]`` and zero biases; gain sqrt(2) in hidden layers (Saxe et al. 2014).

    ``sizes`` is ``(in, hidden ..., out)``. Drawn layer by layer from ``rng``, so that every framework that starts from
    these starts equal.
    """
    weights: Weights = {}
    for name, shape in mlp_shapes(prefix, sizes).items():
        gain = out_gain if name.startswith(f"{prefix}.out.") else math.sqrt(2.0)
        weights[name] = orthogonal(shape[0], shape[1], gain, rng) if len(shape) == 2 else np.zeros(shape, np.float32)
    return weights


def orthogonal(rows: int, columns: int, gain: float, rng: np.random.Generator) -> Float32:
    """``gain`` times a matrix ``[rows, columns]`` whose shorter side is orthonormal, uniform over such matrices."""
    q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    q *= np.where(np.diag(r) < 0.0, -1.0, 1.0)  # else the decomposition's own choice of signs would show
    return np.ascontiguousarray(gain * (q if rows >= columns else q.T), np.float32)


def _relu(x: Float32, out: Float32) -> Float32:
    return np.maximum(x, np.float32(0.0), out=out)


_ACTIVATIONS: Mapping[str, Callable[..., Any]] = {"tanh": np.tanh, "relu": _relu}


class MLP:
    """The network whose weights are ``prefix.hidden_i.weight`` ... ``prefix.out.bias``: ``[n, in]`` to ``[n, out]``.

    Reads the arrays of ``weights`` as they are when it is called; results are new arrays.
    """

    def __init__(self, weights: Mapping[str, NDArray[Any]], prefix: str, activation: Literal["tanh", "relu"]) -> None:
        hidden = sum(name.startswith(f"{prefix}.hidden_") and name.endswith(".weight") for name in weights)
        layers = [(weights[f"{name}.weight"], weights[f"{name}.bias"]) for name in layer_names(prefix, hidden)]
        self._hidden, self._out = layers[:-1], layers[-1]
        self._activation = _ACTIVATIONS[activation]

    def __call__(self, x: Float32) -> Float32:
        activation = self._activation
        for weight, bias in self._hidden:
            x = x @ weight
            x += bias
            activation(x, out=x)
        weight, bias = self._out
        x = x @ weight
        x += bias
        return x
