"""The convolutional encoders as data: which layers they have, of which shapes. Frameworks compute them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rlcore.acting.images import Image
from rlcore.errors import ConfigError

#: The shortest side of an image that the convolutions of ``nature`` leave something of.
NATURE_SIDE = 36


class Convolution(NamedTuple):
    """A square convolution whose weights are ``[size, size, inputs, outputs]``, with as many biases as outputs."""

    name: str
    size: int
    stride: int
    padding: int
    inputs: int
    outputs: int

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The shape of its weights."""
        return self.size, self.size, self.inputs, self.outputs


class NatureEncoder(NamedTuple):
    """Three convolutions, each followed by a rectifier (Mnih et al. 2015, methods)."""

    convolutions: tuple[Convolution, ...]
    outputs: int
    hidden: tuple[int, ...] = (512,)


class Stage(NamedTuple):
    """A convolution, where it ``pools`` the maximum of 3 x 3 pixels at stride 2 and padding 1, and residual blocks of
    two convolutions.

    A block adds to its input what two convolutions, each with a rectifier before it, make of it.
    """

    convolution: Convolution
    blocks: tuple[tuple[Convolution, Convolution], ...]
    pools: bool = True


class ResidualEncoder(NamedTuple):
    """Stages, one after the other, and a rectifier."""

    stages: tuple[Stage, ...]
    outputs: int
    hidden: tuple[int, ...] = (256,)

    @property
    def convolutions(self) -> tuple[Convolution, ...]:
        """All convolutions in order."""
        found: list[Convolution] = []
        for stage in self.stages:
            found += [stage.convolution, *(layer for block in stage.blocks for layer in block)]
        return tuple(found)


ImageEncoder = NatureEncoder | ResidualEncoder


def nature(image: Image) -> NatureEncoder:
    """The encoder for images of this size. ``ConfigError`` for ones that are too small."""
    height, width, channels = image.height, image.width, image.channels
    if min(height, width) < NATURE_SIDE:
        raise ConfigError(
            f"model.encoder: nature needs images of at least {NATURE_SIDE} x {NATURE_SIDE} pixels, not "
            f"{height} x {width}; impala takes smaller ones"
        )
    layers = []
    for i, (size, stride, outputs) in enumerate(((8, 4, 32), (4, 2, 64), (3, 1, 64))):
        layers.append(Convolution(f"conv_{i}", size, stride, 0, channels, outputs))
        height, width, channels = (height - size) // stride + 1, (width - size) // stride + 1, outputs
    return NatureEncoder(tuple(layers), height * width * channels)


def impala(image: Image, widths: Sequence[int] = (16, 32, 32)) -> ResidualEncoder:
    """Three stages (Espeholt et al. 2018, figure 3, right) for images of this size."""
    height, width, channels = image.height, image.width, image.channels
    stages = []
    for i, outputs in enumerate(widths):
        opening = Convolution(f"stage_{i}.conv", 3, 1, 1, channels, outputs)
        blocks = tuple(
            (
                Convolution(f"stage_{i}.block_{j}.conv_0", 3, 1, 1, outputs, outputs),
                Convolution(f"stage_{i}.block_{j}.conv_1", 3, 1, 1, outputs, outputs),
            )
            for j in range(2)
        )
        stages.append(Stage(opening, blocks))
        height, width, channels = (height + 1) // 2, (width + 1) // 2, outputs
    return ResidualEncoder(tuple(stages), height * width * channels)


def tower(image: Image, blocks: int, channels: int) -> ResidualEncoder:
    """One stage of so many blocks that does not pool, so that a board keeps its size: the residual tower of AlphaZero
    (Silver et al. 2017, methods, "Architecture"), with rectifiers before the convolutions and without normalisation."""
    opening = Convolution("tower.conv", 3, 1, 1, image.channels, channels)
    residual = tuple(
        (
            Convolution(f"tower.block_{i}.conv_0", 3, 1, 1, channels, channels),
            Convolution(f"tower.block_{i}.conv_1", 3, 1, 1, channels, channels),
        )
        for i in range(blocks)
    )
    return ResidualEncoder((Stage(opening, residual, pools=False),), image.height * image.width * channels)
