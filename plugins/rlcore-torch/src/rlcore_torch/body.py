"""TorchBody: the layers of a :class:`rlcore.acting.body.Body` before its LSTM, as functions of named tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.acting import FlatObs, ModelConfig, layer_names
from rlcore.acting.body import Body, encoder_name
from rlcore.acting.scaling import scales
from rlcore.batch import OBS
from rlcore.columns import Columns, column_name
from rlcore_torch.dense import dense
from rlcore_torch.image_encoders import EncodedImage
from rlcore_torch.parameters import Leaf

#: The column of an image; of one that is a part of the observation, with its name behind it.
IMAGE = "image"
#: Axes of a canonical convolution ``[height, width, in, out]`` in torch's order.
_OUT_IN_HEIGHT_WIDTH = (3, 2, 0, 1)

#: ``(name, x) -> y``: the layer of that name.
Layer = Callable[[str, Tensor], Tensor]


class TorchBody:
    """Reads observations and computes encoders and hidden layers; matrices are given as their transposes."""

    def __init__(self, observation_space: gymnasium.Space[Any], model: ModelConfig, body: Body) -> None:
        scaled = scales(observation_space, model.scale)
        self._flat = FlatObs(observation_space, model.scale, leave_out=frozenset(body.encoders))
        self._images = {
            leaf: EncodedImage(body.images[leaf], encoder, scaled.get(leaf)) for leaf, encoder in body.encoders.items()
        }
        self._activation = torch.relu if body.activation == "relu" else torch.tanh
        self._hidden = layer_names("", len(body.hidden))[:-1]

    def columns(self, obs: Columns, prefix: str = "") -> dict[str, NDArray[Any]]:
        """What it reads of observations ``[n, ...]``, as columns of a minibatch whose names begin with ``prefix``."""
        columns = {} if not self._flat.size else {prefix + OBS: self._flat(obs)}
        for leaf, image in self._images.items():
            pixels = image.read(leaf, obs[leaf] if isinstance(obs, dict) else obs)
            columns[prefix + column_name(IMAGE, leaf)] = pixels
        return columns

    def read(self, inputs: Mapping[str, Tensor], dtype: torch.dtype, prefix: str = "") -> dict[str, Tensor]:
        """These columns as every network reads them: images are scaled once for all."""
        read = {OBS: inputs[prefix + OBS]} if self._flat.size else {}
        for leaf, image in self._images.items():
            name = column_name(IMAGE, leaf)
            read[name] = image.pixels(inputs[prefix + name], dtype)
        return read

    def __call__(
        self,
        weights: Mapping[str, Tensor],
        network: str,
        read: Mapping[str, Tensor],
        layer: Layer,
        beside: Sequence[Tensor] = (),
    ) -> Tensor:
        """The outputs of the last hidden layer, ``[n, width]``. ``beside`` ``[n, ...]`` are inputs of the first one."""
        parts = [read[OBS]] if OBS in read else []
        for leaf, image in self._images.items():
            parts.append(image(weights, encoder_name(network, leaf), read[column_name(IMAGE, leaf)]))
        parts += beside
        x = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
        for hidden in self._hidden:
            x = self._activation(layer(f"{network}{hidden}", x))
        return x


def linear(weights: Mapping[str, Tensor], name: str, x: Tensor) -> Tensor:
    """The dense layer ``name``."""
    return dense(x, weights[f"{name}.weight"], weights[f"{name}.bias"])


def lstm(
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


def leaf_of(name: str, shape: tuple[int, ...]) -> Leaf:
    """Matrices as their transposes, convolutions in torch's own order of axes."""
    axes = {2: (1, 0), 4: _OUT_IN_HEIGHT_WIDTH}.get(len(shape))
    return Leaf((name,), shape, shape if axes is None else tuple(shape[axis] for axis in axes), axes)
