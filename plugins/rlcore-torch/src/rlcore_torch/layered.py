"""LayeredModel: encoders of images, hidden layers and LSTMs, in one network for policy and values or in two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from rlcore.acting import LOG_STD, Architecture, FlatObs, ModelConfig, layer_names
from rlcore.acting.architecture import POLICY, VALUE
from rlcore.acting.body import encoder_name
from rlcore.acting.scaling import scales
from rlcore.batch import OBS
from rlcore.columns import Columns, column_name
from rlcore.policy_graph import State, Weights
from rlcore_torch.columns import Minibatch
from rlcore_torch.image_encoders import EncodedImage
from rlcore_torch.model import Heads, Model
from rlcore_torch.parameters import Leaf
from rlcore_torch.sequences import BATCH_SIZES, state_of

#: The column of an image; of one that is a part of the observation, with its name behind it.
IMAGE = "image"
#: Axes of a canonical convolution ``[height, width, in, out]`` in torch's order.
_OUT_IN_HEIGHT_WIDTH = (3, 2, 0, 1)


class LayeredModel(Model):
    """What an :class:`rlcore.acting.Architecture` describes."""

    def __init__(
        self, observation_space: gymnasium.Space[Any], model: ModelConfig, architecture: Architecture
    ) -> None:
        self._architecture = architecture
        scaled = scales(observation_space, model.scale)
        self._flat = FlatObs(observation_space, model.scale, leave_out=frozenset(architecture.encoders))
        self._images = {
            leaf: EncodedImage(architecture.images[leaf], encoder, scaled.get(leaf))
            for leaf, encoder in architecture.encoders.items()
        }
        self._activation = torch.relu if architecture.activation == "relu" else torch.tanh
        self._hidden = layer_names("", len(architecture.hidden))[:-1]
        self._shapes = architecture.shapes()
        self.layout = [_leaf(name, shape) for name, shape in self._shapes.items()]
        self.recurrent = bool(architecture.lstm)
        self.values_while_acting = architecture.value and (self.recurrent or architecture.shared_value)
        self.recordable = not (self.recurrent or architecture.encoders)

    def init(self, rng: np.random.Generator, log_std: float) -> Weights:
        return self._architecture.init(rng, log_std=log_std)

    def initial_state(self, n: int) -> State:
        return tuple(np.zeros((n, size), np.float32) for size in self._architecture.state_sizes)

    def columns(self, obs: Columns) -> dict[str, NDArray[Any]]:
        columns = {} if not self._flat.size else {OBS: self._flat(obs)}
        for leaf, image in self._images.items():
            columns[column_name(IMAGE, leaf)] = image.read(leaf, obs[leaf] if isinstance(obs, dict) else obs)
        return columns

    def __call__(self, leaves: Sequence[Tensor], inputs: Minibatch) -> Heads:
        weights = dict(zip(self._shapes, leaves, strict=True))
        parts = [inputs[OBS]] if OBS in inputs else []
        dtype = leaves[0].dtype
        pixels = {leaf: image.pixels(inputs[column_name(IMAGE, leaf)], dtype) for leaf, image in self._images.items()}
        state, after, features = state_of(inputs), [], []
        for i, network in enumerate(self._architecture.networks):
            encoded = [
                image(weights, encoder_name(network, leaf), pixels[leaf]) for leaf, image in self._images.items()
            ]
            x = self._hidden_layers(weights, network, _beside([*parts, *encoded]))
            if self.recurrent:
                x, *own = _lstm(weights, f"{network}.lstm", x, inputs[BATCH_SIZES], state[2 * i], state[2 * i + 1])
                after += own
            features.append(x)
        values = _linear(weights, f"{VALUE}.out", features[-1]) if self._architecture.value else None
        return Heads(_linear(weights, f"{POLICY}.out", features[0]), weights.get(LOG_STD), values, tuple(after))

    def _hidden_layers(self, weights: Mapping[str, Tensor], network: str, x: Tensor) -> Tensor:
        for layer in self._hidden:
            x = self._activation(_linear(weights, f"{network}{layer}", x))
        return x


def _leaf(name: str, shape: tuple[int, ...]) -> Leaf:
    """Matrices as their transposes, convolutions in torch's own order of axes."""
    axes = {2: (1, 0), 4: _OUT_IN_HEIGHT_WIDTH}.get(len(shape))
    return Leaf((name,), shape, shape if axes is None else tuple(shape[axis] for axis in axes), axes)


def _beside(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), 1)


def _linear(weights: Mapping[str, Tensor], name: str, x: Tensor) -> Tensor:
    return functional.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])


def _lstm(
    weights: Mapping[str, Tensor], name: str, x: Tensor, batch_sizes: Tensor, output: Tensor, cell: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs ``[n, units]`` of packed rows; output and cell ``[pieces, units]`` after the last row of each piece."""
    bias = weights[f"{name}.bias"]
    # torch has a second bias, which is added to the first.
    own = [weights[f"{name}.weight_x"], weights[f"{name}.weight_h"], bias, torch.zeros_like(bias)]
    outputs, last_output, last_cell = torch.lstm(
        x, batch_sizes, (output[None], cell[None]), own, True, 1, 0.0, False, False
    )
    return outputs, last_output[0], last_cell[0]
