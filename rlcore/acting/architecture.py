"""Architecture: the layers of a policy's networks, their weights' names and shapes, and what all start from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from rlcore.acting.convolutions import NATURE_SIDE, ImageEncoder, impala, nature
from rlcore.acting.images import Image, images_in
from rlcore.acting.model_config import Activation, ModelConfig
from rlcore.acting.networks import layer_names, orthogonal
from rlcore.acting.observations import FlatObs
from rlcore.acting.products import distribution_for
from rlcore.acting.refusals import shown
from rlcore.acting.scaling import WHOLE, is_image
from rlcore.columns import column_name, leaf_spaces
from rlcore.errors import ConfigError
from rlcore.policy_graph import Remark, Weights

LOG_STD = "policy.log_std"
POLICY, VALUE, SHARED = "policy", "value", "shared"
#: Hidden layers where nothing is said and no image encoded.
DENSE = (64, 64)
#: The gates of an LSTM in the order in which their columns stand: input, forget, cell, output.
GATES = 4


@dataclass(frozen=True)
class Architecture:
    """The layers from an observation to the parameters of an action distribution and to values.

    A network, called ``policy`` and ``value``, or ``shared`` where there is one for both, is made of: an encoder for
    each image, whose outputs stand beside the ``flat`` numbers of the other parts; ``hidden`` layers; an LSTM. A last
    layer, ``policy.out`` and ``value.out``, is linear. Weights are named so, dense ones ``[in, out]``, convolutions
    ``[height, width, in, out]``, the LSTM's ``[in, 4 units]`` with the gates in the order input, forget, cell, output:

    ``policy.image.LEAF.conv_0.weight`` ``policy.hidden_0.weight`` ``policy.hidden_0.bias`` ``policy.lstm.weight_x``
    ``policy.lstm.weight_h`` ``policy.lstm.bias`` ``policy.out.weight`` ``policy.log_std`` ...
    """

    images: Mapping[str, Image]
    encoders: Mapping[str, ImageEncoder]
    #: How many numbers the parts of an observation that are no encoded images have in all.
    flat: int
    hidden: tuple[int, ...]
    activation: Activation
    lstm: int
    shared_value: bool
    #: Of the policy's last layer, and of state independent parameters (a Gaussian's log standard deviations).
    outputs: int
    free: int
    value: bool

    @classmethod
    def of(
        cls,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        model: ModelConfig,
        *,
        squash: bool = False,
        value: bool = True,
    ) -> Architecture:
        """What ``model`` comes to in these spaces.

        ``SpaceError`` for spaces that cannot be seen or acted in, ``ConfigError`` for a model that does not fit them.
        """
        if model.custom is not None:
            raise ConfigError("model.custom: this policy graph takes no custom model")
        distribution = distribution_for(action_space, squash)
        images, encoders = _encoders(observation_space, model)
        flat = FlatObs(observation_space, model.scale, leave_out=frozenset(encoders)).size
        hidden = next((encoder.hidden for encoder in encoders.values()), DENSE)
        return cls(
            images=images,
            encoders=encoders,
            flat=flat,
            hidden=hidden if model.hidden is None else model.hidden,
            activation=("relu" if encoders else "tanh") if model.activation is None else model.activation,
            lstm=model.lstm,
            shared_value=value and (bool(encoders) if model.shared_value is None else model.shared_value),
            outputs=distribution.outputs,
            free=distribution.free,
            value=value,
        )

    @property
    def networks(self) -> tuple[str, ...]:
        """``("shared",)``, ``("policy", "value")`` or ``("policy",)``."""
        return (SHARED,) if self.shared_value else (POLICY, VALUE) if self.value else (POLICY,)

    @property
    def features(self) -> int:
        """The number of inputs of the first layer behind the encoders."""
        return self.flat + sum(encoder.outputs for encoder in self.encoders.values())

    @property
    def width(self) -> int:
        """The number of inputs of the last layers."""
        return self.lstm or (self.hidden[-1] if self.hidden else self.features)

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """The widths of the parts of the recurrent state: output and cell of the LSTM of each network."""
        return (self.lstm, self.lstm) * len(self.networks) if self.lstm else ()

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The names and shapes of all weights, in the order in which they are drawn."""
        first, *others = self.networks
        shapes = self._network(first)
        _dense(shapes, f"{POLICY}.out", self.width, self.outputs)
        if self.free:
            shapes[LOG_STD] = (self.free,)
        for network in others:
            shapes |= self._network(network)
        if self.value:
            _dense(shapes, f"{VALUE}.out", self.width, 1)
        return shapes

    def _network(self, network: str) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {}
        for leaf, encoder in self.encoders.items():
            for layer in encoder.convolutions:
                name = f"{encoder_name(network, leaf)}.{layer.name}"
                shapes[f"{name}.weight"], shapes[f"{name}.bias"] = layer.shape, (layer.outputs,)
        sizes = (self.features, *self.hidden)
        for name, rows, columns in zip(layer_names(network, len(self.hidden)), sizes, self.hidden, strict=False):
            _dense(shapes, name, rows, columns)
        if self.lstm:
            shapes[f"{network}.lstm.weight_x"] = (sizes[-1], GATES * self.lstm)
            shapes[f"{network}.lstm.weight_h"] = (self.lstm, GATES * self.lstm)
            shapes[f"{network}.lstm.bias"] = (GATES * self.lstm,)
        return shapes

    def init(self, rng: np.random.Generator, *, log_std: float = 0.0) -> Weights:
        """float32 weights that every framework starts from; drawn in order, so that equal generators give equal ones.

        Orthogonal (Saxe et al. 2014) with gain sqrt(2), in LSTMs 1 for each gate, in the policy's last layer 0.01, in
        the values' 1. Biases are 0, those of forget gates 1 (Jozefowicz et al. 2015). ``log_std`` is where the state
        independent log standard deviations of Gaussians start.
        """
        return {name: self._start(name, shape, rng, log_std) for name, shape in self.shapes().items()}

    def _start(self, name: str, shape: tuple[int, ...], rng: np.random.Generator, log_std: float) -> Any:
        if name == LOG_STD:
            return np.full(shape, log_std, np.float32)
        if ".lstm." in name and len(shape) == 2:
            gates = [orthogonal(shape[0], self.lstm, 1.0, rng) for _ in range(GATES)]
            return np.concatenate(gates, axis=1)
        if len(shape) == 1:
            bias = np.zeros(shape, np.float32)
            if name.endswith(".lstm.bias"):
                bias[self.lstm : 2 * self.lstm] = 1.0
            return bias
        gain = {f"{POLICY}.out.weight": 0.01, f"{VALUE}.out.weight": 1.0}.get(name, math.sqrt(2.0))
        return orthogonal(math.prod(shape[:-1]), shape[-1], gain, rng).reshape(shape)


def refuse_encoders(architecture: Architecture) -> None:
    """``ConfigError`` for an architecture with convolutions, on behalf of what has none."""
    if architecture.encoders:
        raise ConfigError(
            "model.encoder: this policy graph has no convolutions; 'mlp' reads the pixels of images as they are"
        )


def refuse_all_but_dense(model: ModelConfig, architecture: Architecture) -> None:
    """``ConfigError`` for a model of more than dense layers, on behalf of a policy graph that computes nothing else."""
    refuse_encoders(architecture)
    if model.lstm:
        raise ConfigError("model.lstm: this policy graph is not recurrent")
    if model.compile or model.precision != "float32":
        key = "compile" if model.compile else "precision"
        raise ConfigError(f"model.{key}: this policy graph has no such option")


def encoder_name(network: str, leaf: str) -> str:
    """``policy.image`` and, for an image that is a part of the observation, ``policy.image.LEAF``."""
    return column_name(f"{network}.image", leaf)


def _dense(shapes: dict[str, tuple[int, ...]], name: str, rows: int, columns: int) -> None:
    shapes[f"{name}.weight"], shapes[f"{name}.bias"] = (rows, columns), (columns,)


def _encoders(
    observation_space: gymnasium.Space[Any], model: ModelConfig
) -> tuple[dict[str, Image], dict[str, ImageEncoder]]:
    if model.encoder == "mlp":
        return {}, {}
    images = images_in(observation_space)
    if model.encoder is None:
        spaces = leaf_spaces(observation_space)
        images = {leaf: image for leaf, image in images.items() if is_image(spaces[leaf]) and _is_large(image)}
    elif not images:
        space = shown(observation_space)
        raise ConfigError(f"model.encoder: {model.encoder}: {space} has no image, a Box of three or four axes")
    build = impala if model.encoder == "impala" else nature
    return images, {leaf: build(image) for leaf, image in images.items()}


def _is_large(image: Image) -> bool:
    return min(image.height, image.width) >= NATURE_SIDE


def remarks_on_encoders(observation_space: gymnasium.Space[Any], model: ModelConfig) -> list[Remark]:
    """Which networks read images where the config does not say so."""
    if model.encoder is not None or model.custom is not None:
        return []
    images, _ = _encoders(observation_space, model)
    return [
        Remark(
            f"observation '{leaf or WHOLE}' is read as {image.height} x {image.width} pixels of {image.channels} "
            "channels by the convolutions of model.encoder: nature; impala and mlp are the others"
        )
        for leaf, image in images.items()
    ]
