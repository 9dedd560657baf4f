"""Body: the layers of a network from observations to the inputs of its last layers, which differ between policies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.acting.convolutions import NATURE_SIDE, ImageEncoder, impala, nature, tower
from rlcore.acting.images import Image, images_in
from rlcore.acting.model_config import Activation, ModelConfig
from rlcore.acting.networks import layer_names, orthogonal
from rlcore.acting.observations import FlatObs
from rlcore.acting.refusals import shown
from rlcore.acting.scaling import is_image
from rlcore.columns import column_name, leaf_spaces
from rlcore.errors import ConfigError

#: The gates of an LSTM in the order in which their columns stand: input, forget, cell, output.
GATES = 4

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Body:
    """An encoder for each image, whose outputs stand beside the ``flat`` numbers of the other parts of an observation;
    ``hidden`` layers; an LSTM of ``lstm`` units, none where it is 0.

    Weights of the network ``policy`` are named so, dense ones ``[in, out]``, convolutions ``[height, width, in, out]``,
    the LSTM's ``[in, 4 units]`` with the gates in the order input, forget, cell, output:

    ``policy.image.LEAF.conv_0.weight`` ``policy.hidden_0.weight`` ``policy.hidden_0.bias`` ``policy.lstm.weight_x``
    ``policy.lstm.weight_h`` ``policy.lstm.bias``
    """

    images: Mapping[str, Image]
    encoders: Mapping[str, ImageEncoder]
    #: How many numbers the parts of an observation that are no encoded images have in all.
    flat: int
    hidden: tuple[int, ...]
    activation: Activation
    lstm: int

    @classmethod
    def read(
        cls,
        observation_space: gymnasium.Space[Any],
        model: ModelConfig,
        *,
        hidden: tuple[int, ...],
        activation: Activation,
    ) -> Body:
        """What ``model`` comes to in this space; ``hidden`` and ``activation`` are what holds where it leaves them out
        and no image is encoded.

        ``SpaceError`` for a space that cannot be seen, ``ConfigError`` for a model that does not fit it.
        """
        if model.custom is not None:
            raise ConfigError("model.custom: this policy graph takes no custom model")
        images, encoders = encoders_for(observation_space, model)
        usual = next((encoder.hidden for encoder in encoders.values()), hidden)
        return Body(
            images=images,
            encoders=encoders,
            flat=FlatObs(observation_space, model.scale, leave_out=frozenset(encoders)).size,
            hidden=usual if model.hidden is None else model.hidden,
            activation=("relu" if encoders else activation) if model.activation is None else model.activation,
            lstm=model.lstm,
        )

    @property
    def features(self) -> int:
        """The number of inputs of the first layer behind the encoders."""
        return self.flat + sum(encoder.outputs for encoder in self.encoders.values())

    @property
    def width(self) -> int:
        """The number of inputs of the last layers."""
        return self.lstm or (self.hidden[-1] if self.hidden else self.features)

    def body_shapes(self, network: str) -> Shapes:
        """The names and shapes of the weights of one network, in the order in which they are drawn."""
        shapes: Shapes = {}
        for leaf, encoder in self.encoders.items():
            for layer in encoder.convolutions:
                name = f"{encoder_name(network, leaf)}.{layer.name}"
                shapes[f"{name}.weight"], shapes[f"{name}.bias"] = layer.shape, (layer.outputs,)
        sizes = (self.features, *self.hidden)
        for name, rows, columns in zip(layer_names(network, len(self.hidden)), sizes, self.hidden, strict=False):
            shapes |= dense(name, rows, columns)
        if self.lstm:
            shapes[f"{network}.lstm.weight_x"] = (sizes[-1], GATES * self.lstm)
            shapes[f"{network}.lstm.weight_h"] = (self.lstm, GATES * self.lstm)
            shapes[f"{network}.lstm.bias"] = (GATES * self.lstm,)
        return shapes

    def draw(self, name: str, shape: tuple[int, ...], rng: np.random.Generator, gain: float) -> NDArray[np.float32]:
        """What one weight starts from: orthogonal (Saxe et al. 2014) with ``gain``, in LSTMs 1 for each gate. Biases
        are 0, those of forget gates 1 (Jozefowicz et al. 2015)."""
        if ".lstm." in name and len(shape) == 2:
            gates = [orthogonal(shape[0], self.lstm, 1.0, rng) for _ in range(GATES)]
            return np.concatenate(gates, axis=1)
        if len(shape) == 1:
            bias = np.zeros(shape, np.float32)
            if name.endswith(".lstm.bias"):
                bias[self.lstm : 2 * self.lstm] = 1.0
            return bias
        return orthogonal(math.prod(shape[:-1]), shape[-1], gain, rng).reshape(shape)


def dense(name: str, rows: int, columns: int) -> Shapes:
    """The weight and the bias of a layer."""
    return {f"{name}.weight": (rows, columns), f"{name}.bias": (columns,)}


def encoder_name(network: str, leaf: str) -> str:
    """``policy.image`` and, for an image that is a part of the observation, ``policy.image.LEAF``."""
    return column_name(f"{network}.image", leaf)


def encoders_for(
    observation_space: gymnasium.Space[Any], model: ModelConfig
) -> tuple[dict[str, Image], dict[str, ImageEncoder]]:
    """The images in observations that ``model`` encodes, and their encoders, by leaf."""
    if model.encoder == "mlp":
        return {}, {}
    images = images_in(observation_space)
    if model.encoder is None:
        spaces = leaf_spaces(observation_space)
        images = {leaf: image for leaf, image in images.items() if is_image(spaces[leaf]) and _is_large(image)}
    elif not images:
        space = shown(observation_space)
        raise ConfigError(f"model.encoder: {model.encoder}: {space} has no image, a Box of three or four axes")
    return images, {leaf: _encoder(image, model) for leaf, image in images.items()}


def _encoder(image: Image, model: ModelConfig) -> ImageEncoder:
    if model.encoder == "tower":
        return tower(image, model.tower.blocks, model.tower.channels)
    return impala(image) if model.encoder == "impala" else nature(image)


def _is_large(image: Image) -> bool:
    return min(image.height, image.width) >= NATURE_SIDE
