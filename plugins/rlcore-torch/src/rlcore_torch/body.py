"""TorchBody: the layers of a :class:`rlcore.acting.body.Body` before its LSTM, as functions of named tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import torch
from torch import Tensor

from rlcore.acting import ModelConfig
from rlcore.acting.body import Body
from rlcore.acting.convolutions import ImageEncoder
from rlcore.acting.images import Image
from rlcore.acting.scaling import Scale
from rlcore.learning.network_body import NetworkBody
from rlcore_torch.columns import dtype_of
from rlcore_torch.dense import dense
from rlcore_torch.image_encoders import TorchEncodedImage
from rlcore_torch.parameters import Leaf

#: Axes of a canonical convolution ``[height, width, in, out]`` in torch's order.
_OUT_IN_HEIGHT_WIDTH = (3, 2, 0, 1)


class TorchBody(NetworkBody):
    """Functions of named tensors; matrices are given as their transposes."""

    activations = {"relu": torch.relu, "tanh": torch.tanh}

    def __init__(self, observation_space: gymnasium.Space[Any], model: ModelConfig, body: Body) -> None:
        self._dtype = dtype_of(model.precision)
        super().__init__(observation_space, model, body)

    def _encoded(self, leaf: str, image: Image, encoder: ImageEncoder, scale: Scale | None) -> TorchEncodedImage:
        return TorchEncodedImage(image, encoder, scale, self._dtype)

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(parts), 1)


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
