"""Which parts of an observation are images for a convolutional network, and which of their axes mean what."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import gymnasium
from gymnasium import spaces

from rlcore.acting.unseen import is_unseen
from rlcore.columns import leaf_spaces


class Image(NamedTuple):
    """An image of ``height`` x ``width`` pixels; its numbers, ``[n, *shape]``, become ``[n, height, width, channels]``.

    Channels stand last (Gymnasium's Atari frames in colour) or before height and width (stacks of grey frames). Where
    the first and the last of the three axes could both be channels, the shorter one is; of equal ones the last. Of four
    axes the first is a stack of images, whose channels stand beside each other, the oldest first.
    """

    shape: tuple[int, ...]
    height: int
    width: int
    channels: int
    #: The axes of ``[n, *shape]`` in the order batch, height, width, channels.
    axes: tuple[int, ...]


def image_of(space: gymnasium.Space[Any]) -> Image | None:
    """How a Box of three or four axes is read as an image; None for any other space."""
    if not isinstance(space, spaces.Box) or len(space.shape) not in (3, 4):
        return None
    stack = space.shape[:-3]
    first, middle, last = space.shape[-3:]
    offset = 1 + len(stack)
    stack_axes = tuple(range(1, offset))
    if last <= first:
        height, width, channels, axes = first, middle, last, (offset, offset + 1, *stack_axes, offset + 2)
    else:
        height, width, channels, axes = middle, last, first, (offset + 1, offset + 2, *stack_axes, offset)
    return Image(tuple(space.shape), height, width, channels * math.prod(stack), (0, *axes))


def images_in(space: gymnasium.Space[Any]) -> dict[str, Image]:
    """The leaves of an observation space that can be read as images, by dotted name."""
    found = {leaf: image_of(child) for leaf, child in leaf_spaces(space).items() if not is_unseen(leaf)}
    return {leaf: image for leaf, image in found.items() if image is not None and 0 not in image.shape}
