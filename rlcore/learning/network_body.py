"""NetworkBody: the layers of a :class:`rlcore.acting.body.Body` before its LSTM, whatever framework computes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import gymnasium
from numpy.typing import NDArray

from rlcore.acting.body import Body, encoder_name
from rlcore.acting.convolutions import ImageEncoder
from rlcore.acting.images import Image
from rlcore.acting.model_config import ModelConfig
from rlcore.acting.networks import layer_names
from rlcore.acting.observations import FlatObs
from rlcore.acting.scaling import Scale, scales
from rlcore.batch import OBS
from rlcore.columns import Columns, column_name

#: The column of an image; of one that is a part of the observation, with its name behind it.
IMAGE = "image"
#: ``(name, x) -> y``: the layer of that name, on a framework's tensors.
Layer = Callable[[str, Any], Any]


class EncodedImage(ABC):
    """An image on its way through an encoder, as a framework computes it."""

    def __init__(self, image: Image, encoder: ImageEncoder, scale: Scale | None) -> None:
        self._image, self._encoder, self._scale = image, encoder, scale

    def read(self, leaf: str, array: NDArray[Any]) -> NDArray[Any]:
        """``array``. ``ValueError`` where it is not ``[n, *shape]``."""
        shape = self._image.shape
        if array.shape[1:] != shape or array.ndim != len(shape) + 1:
            raise ValueError(f"observation {leaf} of shape {array.shape}, expected [n, {', '.join(map(str, shape))}]")
        return array

    @abstractmethod
    def pixels(self, raw: Any) -> Any:
        """Raw images ``[n, *shape]``, scaled, with the axes in the framework's order."""

    @abstractmethod
    def __call__(self, weights: Mapping[str, Any], name: str, pixels: Any) -> Any:
        """Features ``[n, outputs]``, in the order height, width, channels, by the weights whose names begin so."""


class NetworkBody(ABC):
    """Reads observations and computes encoders and hidden layers."""

    #: The framework's functions of the activations' names.
    activations: ClassVar[Mapping[str, Callable[[Any], Any]]]

    def __init__(self, observation_space: gymnasium.Space[Any], model: ModelConfig, body: Body) -> None:
        scaled = scales(observation_space, model.scale)
        self._flat = FlatObs(observation_space, model.scale, leave_out=frozenset(body.encoders))
        self._images = {
            leaf: self._encoded(leaf, body.images[leaf], encoder, scaled.get(leaf))
            for leaf, encoder in body.encoders.items()
        }
        self._activation = self.activations[body.activation]
        self._hidden = layer_names("", len(body.hidden))[:-1]

    @abstractmethod
    def _encoded(self, leaf: str, image: Image, encoder: ImageEncoder, scale: Scale | None) -> EncodedImage:
        """The part ``leaf`` of observations."""

    @abstractmethod
    def _joined(self, parts: Sequence[Any]) -> Any:
        """``[n, a]``, ``[n, b]`` ... beside each other."""

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
        x = parts[0] if len(parts) == 1 else self._joined(parts)
        for hidden in self._hidden:
            x = self._activation(layer(f"{network}{hidden}", x))
        return x
