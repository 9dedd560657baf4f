"""The convolutional encoders of :mod:`rlcore.acting.convolutions`, computed by torch."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from rlcore.acting.convolutions import Convolution, ImageEncoder, NatureEncoder, Stage
from rlcore.acting.images import Image
from rlcore.acting.scaling import Scale
from rlcore.learning.network_body import EncodedImage


class TorchEncodedImage(EncodedImage):
    """Pixels are ``[n, channels, height, width]`` in torch's order."""

    def __init__(self, image: Image, encoder: ImageEncoder, scale: Scale | None, dtype: torch.dtype) -> None:
        super().__init__(image, encoder, scale)
        self._dtype = dtype
        # One number for all pixels is read without a tensor.
        self._low, self._width = (None, None) if scale is None else (_number(scale.low), _number(scale.width))

    def pixels(self, raw: Tensor) -> Tensor:
        x = raw.to(self._dtype)
        if self._width is not None:
            x = x.clone() if x is raw else x
            # In place: at this size a second array takes longer than the arithmetic.
            x = (x if self._low is None else x.sub_(_on(self._low, x))).div_(_on(self._width, x))
        image = self._image
        x = x.permute(image.axes).reshape(len(raw), image.height, image.width, image.channels)
        return x.permute(0, 3, 1, 2)

    def __call__(self, weights: Mapping[str, Tensor], name: str, pixels: Tensor) -> Tensor:
        if isinstance(self._encoder, NatureEncoder):
            x = pixels
            for layer in self._encoder.convolutions:
                x = _convolve(weights, name, layer, x).relu_()
        else:
            x = pixels
            for stage in self._encoder.stages:
                x = _stage(weights, name, stage, x)
            x = x.relu()
        return x.permute(0, 2, 3, 1).flatten(1)


def _stage(weights: Mapping[str, Tensor], name: str, stage: Stage, x: Tensor) -> Tensor:
    x = _convolve(weights, name, stage.convolution, x)
    if stage.pools:
        x = functional.max_pool2d(x, 3, 2, 1)
    for first, second in stage.blocks:
        x = x + _convolve(weights, name, second, _convolve(weights, name, first, x.relu()).relu_())
    return x


def _convolve(weights: Mapping[str, Tensor], name: str, layer: Convolution, x: Tensor) -> Tensor:
    weight, bias = weights[f"{name}.{layer.name}.weight"], weights[f"{name}.{layer.name}.bias"]
    return functional.conv2d(x, weight, bias, layer.stride, layer.padding)


def _number(array: object) -> float | Tensor | None:
    tensor = torch.as_tensor(array)
    if tensor.ndim:
        return tensor
    number = float(tensor)
    return number if number else None


def _on(value: float | Tensor, x: Tensor) -> float | Tensor:
    return value.to(x.device) if isinstance(value, Tensor) else value
