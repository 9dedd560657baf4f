from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rlcore.acting.images import Image, image_of, images_in


def box(*shape: int) -> spaces.Box:
    return spaces.Box(0, 255, shape, np.uint8)


def as_pixels(image: Image, array: Any) -> Any:
    """``[n, *shape]`` as ``[n, height, width, channels]``, as the documentation of Image has it."""
    return array.transpose(image.axes).reshape(len(array), image.height, image.width, image.channels)


@pytest.mark.parametrize(
    ("shape", "height", "width", "channels", "axes"),
    [
        ((210, 160, 3), 210, 160, 3, (0, 1, 2, 3)),
        ((84, 84, 1), 84, 84, 1, (0, 1, 2, 3)),
        ((4, 84, 80), 84, 80, 4, (0, 2, 3, 1)),
        ((1, 40, 50), 40, 50, 1, (0, 2, 3, 1)),
        # Of equal axes the last one counts channels.
        ((3, 9, 3), 3, 9, 3, (0, 1, 2, 3)),
        ((7, 7, 7), 7, 7, 7, (0, 1, 2, 3)),
        # The middle axis is never channels, however short.
        ((40, 2, 50), 2, 50, 40, (0, 2, 3, 1)),
        # A stack in front: its images' channels stand beside each other.
        ((4, 84, 80, 3), 84, 80, 12, (0, 2, 3, 1, 4)),
        ((4, 3, 84, 80), 84, 80, 12, (0, 3, 4, 1, 2)),
        ((2, 5, 6, 5), 5, 6, 10, (0, 2, 3, 1, 4)),
    ],
)
def test_which_axes_are_channels(
    shape: tuple[int, ...], height: int, width: int, channels: int, axes: tuple[int, ...]
) -> None:
    assert image_of(box(*shape)) == Image(shape, height, width, channels, axes)


@pytest.mark.parametrize("space", [box(84, 84), box(5), box(2, 2, 2, 3, 4), spaces.Discrete(3)], ids=str)
def test_other_spaces_are_no_images(space: Any) -> None:
    assert image_of(space) is None


def test_pixels_keep_their_places() -> None:
    # The number of a pixel says where it is: 100 times its row, 10 times its column, its channel.
    rows, columns, channels = np.meshgrid(np.arange(5), np.arange(4), np.arange(2), indexing="ij")
    last = (100 * rows + 10 * columns + channels)[None]
    image = image_of(box(5, 4, 2))
    assert image is not None
    assert (as_pixels(image, last) == last).all()
    image = image_of(box(2, 5, 4))
    assert image is not None
    assert (as_pixels(image, last.transpose(0, 3, 1, 2)) == last).all()


def test_a_stack_has_the_oldest_image_first() -> None:
    image = image_of(box(2, 6, 5, 3))
    assert image is not None
    stack = np.arange(2 * 6 * 5 * 3).reshape(1, 2, 6, 5, 3)
    pixels = as_pixels(image, stack)
    assert pixels.shape == (1, 6, 5, 6)
    assert pixels[0, 4, 2].tolist() == [*stack[0, 0, 4, 2].tolist(), *stack[0, 1, 4, 2].tolist()]
    first = image_of(box(2, 3, 6, 5))
    assert first is not None
    assert (as_pixels(first, stack.transpose(0, 1, 4, 2, 3)) == pixels).all()


def test_images_are_found_by_leaf_and_masks_are_none() -> None:
    space = spaces.Dict(
        {
            "eyes": spaces.Tuple([box(9, 8, 3), box(4, 9, 8)]),
            "touch": box(4),
            "empty": box(0, 8, 3),
            "action_mask": spaces.Box(0, 1, (2, 2, 2), np.int8),
        }
    )
    found = images_in(space)
    assert {leaf: (one.height, one.width, one.channels) for leaf, one in found.items()} == {
        "eyes.0": (9, 8, 3),
        "eyes.1": (9, 8, 4),
    }
    assert set(images_in(box(9, 8, 3))) == {""}
