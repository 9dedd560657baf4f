"""TFBody: the layers of a :class:`rlcore.acting.body.Body` before its LSTM, as functions of named tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium

from rlcore.acting import ModelConfig
from rlcore.acting.body import Body
from rlcore.acting.convolutions import ImageEncoder
from rlcore.acting.images import Image
from rlcore.acting.scaling import Scale
from rlcore.batch import OBS
from rlcore.columns import column_name, leaf_spaces
from rlcore.learning.network_body import IMAGE, NetworkBody
from rlcore_tf.backend import tf
from rlcore_tf.columns import Specs, column
from rlcore_tf.image_encoders import TFEncodedImage
from rlcore_tf.layers import ACTIVATIONS, Arithmetic


class TFBody(NetworkBody):
    """Functions of named tensors; may be traced."""

    activations = ACTIVATIONS

    def __init__(
        self, observation_space: gymnasium.Space[Any], model: ModelConfig, body: Body, arithmetic: Arithmetic
    ) -> None:
        self._arithmetic = arithmetic
        spaces = leaf_spaces(observation_space)
        self._image_specs = {leaf: column(body.images[leaf].shape, spaces[leaf].dtype) for leaf in body.encoders}
        super().__init__(observation_space, model, body)

    def _encoded(self, leaf: str, image: Image, encoder: ImageEncoder, scale: Scale | None) -> TFEncodedImage:
        return TFEncodedImage(image, encoder, scale, self._arithmetic)

    def _joined(self, parts: Sequence[Any]) -> Any:
        return tf.concat(parts, axis=1)

    def specs(self, prefix: str = "") -> Specs:
        """What ``columns`` look like."""
        specs = {prefix + OBS: column((self._flat.size,), self._arithmetic.dtype)} if self._flat.size else {}
        return specs | {prefix + column_name(IMAGE, leaf): spec for leaf, spec in self._image_specs.items()}
