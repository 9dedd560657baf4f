"""The convolutional encoders of :mod:`rlcore.acting.convolutions`, computed by TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlcore.acting.convolutions import Convolution, ImageEncoder, NatureEncoder, Stage
from rlcore.acting.images import Image
from rlcore.acting.scaling import Scale
from rlcore.learning.network_body import EncodedImage
from rlcore_tf.backend import tf
from rlcore_tf.layers import Arithmetic


class TFEncodedImage(EncodedImage):
    """Pixels are ``[n, height, width, channels]``, in TensorFlow's order."""

    def __init__(self, image: Image, encoder: ImageEncoder, scale: Scale | None, arithmetic: Arithmetic) -> None:
        super().__init__(image, encoder, scale)
        self._arithmetic = arithmetic

    def pixels(self, raw: Any) -> Any:
        image, dtype = self._image, self._arithmetic.dtype
        x = tf.cast(raw, dtype)
        if self._scale is not None:
            low, width = (tf.constant(array, dtype) for array in (self._scale.low, self._scale.width))
            x = (x - low if self._scale.low.any() else x) / width
        return tf.reshape(tf.transpose(x, image.axes), [-1, image.height, image.width, image.channels])

    def __call__(self, weights: Mapping[str, Any], name: str, pixels: Any) -> Any:
        x = pixels
        if isinstance(self._encoder, NatureEncoder):
            for layer in self._encoder.convolutions:
                x = tf.nn.relu(self._convolve(weights, name, layer, x))
        else:
            for stage in self._encoder.stages:
                x = self._stage(weights, name, stage, x)
            x = tf.nn.relu(x)
        return tf.reshape(x, [-1, self._encoder.outputs])

    def _stage(self, weights: Mapping[str, Any], name: str, stage: Stage, x: Any) -> Any:
        x = self._convolve(weights, name, stage.convolution, x)
        if stage.pools:
            # XLA has no pooling with padding of this kind.
            padded = tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], constant_values=x.dtype.min)
            x = tf.nn.max_pool2d(padded, 3, 2, "VALID")
        for first, second in stage.blocks:
            inner = self._convolve(weights, name, first, tf.nn.relu(x))
            x = x + self._convolve(weights, name, second, tf.nn.relu(inner))
        return x

    def _convolve(self, weights: Mapping[str, Any], name: str, layer: Convolution, x: Any) -> Any:
        weight, bias = weights[f"{name}.{layer.name}.weight"], weights[f"{name}.{layer.name}.bias"]
        own = self._arithmetic
        side = [layer.padding, layer.padding]
        product = tf.nn.conv2d(own.short(x), own.short(weight), layer.stride, [[0, 0], side, side, [0, 0]])
        return own.full(product) + bias
