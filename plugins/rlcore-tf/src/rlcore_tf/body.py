"""TFBody: the layers of a :class:`rlcore.acting.body.Body` before its LSTM, as functions of named tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
from numpy.typing import NDArray

from rlcore.acting import FlatObs, ModelConfig, layer_names
from rlcore.acting.body import Body, encoder_name
from rlcore.acting.scaling import scales
from rlcore.batch import OBS
from rlcore.columns import Columns, column_name, leaf_spaces
from rlcore_tf.backend import tf
from rlcore_tf.columns import Specs, column
from rlcore_tf.image_encoders import EncodedImage
from rlcore_tf.layers import ACTIVATIONS, Arithmetic

#: The column of an image; of one that is a part of the observation, with its name behind it.
IMAGE = "image"

#: ``(name, x) -> y``: the layer of that name.
Layer = Callable[[str, Any], Any]


class TFBody:
    """Reads observations and computes encoders and hidden layers."""

    def __init__(
        self, observation_space: gymnasium.Space[Any], model: ModelConfig, body: Body, arithmetic: Arithmetic
    ) -> None:
        scaled, spaces = scales(observation_space, model.scale), leaf_spaces(observation_space)
        self._flat = FlatObs(observation_space, model.scale, leave_out=frozenset(body.encoders))
        self._arithmetic = arithmetic
        self._images = {}
        for leaf, encoder in body.encoders.items():
            dtype = spaces[leaf].dtype
            assert dtype is not None
            self._images[leaf] = EncodedImage(body.images[leaf], encoder, scaled.get(leaf), dtype, arithmetic)
        self._activation = ACTIVATIONS[body.activation]
        self._hidden = layer_names("", len(body.hidden))[:-1]

    def specs(self, prefix: str = "") -> Specs:
        """What ``columns`` look like."""
        specs = {prefix + OBS: column((self._flat.size,), self._arithmetic.dtype)} if self._flat.size else {}
        for leaf, image in self._images.items():
            specs[prefix + column_name(IMAGE, leaf)] = column(image.shape, image.dtype)
        return specs

    def columns(self, obs: Columns, prefix: str = "") -> dict[str, NDArray[Any]]:
        """What it reads of observations ``[n, ...]``, as columns of a minibatch whose names begin with ``prefix``."""
        columns = {} if not self._flat.size else {prefix + OBS: self._flat(obs)}
        for leaf, image in self._images.items():
            pixels = image.read(leaf, obs[leaf] if isinstance(obs, dict) else obs)
            columns[prefix + column_name(IMAGE, leaf)] = pixels
        return columns

    def read(self, inputs: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
        """These columns as every network reads them: images are scaled once for all."""
        read = {OBS: inputs[prefix + OBS]} if self._flat.size else {}
        for leaf, image in self._images.items():
            name = column_name(IMAGE, leaf)
            read[name] = image.pixels(inputs[prefix + name])
        return read

    def __call__(
        self,
        weights: Mapping[str, Any],
        network: str,
        read: Mapping[str, Any],
        layer: Layer,
        beside: Sequence[Any] = (),
    ) -> Any:
        """The outputs of the last hidden layer, ``[n, width]``. ``beside`` ``[n, ...]`` are inputs of the first one."""
        parts = [read[OBS]] if OBS in read else []
        for leaf, image in self._images.items():
            parts.append(image(weights, encoder_name(network, leaf), read[column_name(IMAGE, leaf)]))
        parts += beside
        x = parts[0] if len(parts) == 1 else tf.concat(parts, axis=1)
        for hidden in self._hidden:
            x = self._activation(layer(f"{network}{hidden}", x))
        return x
