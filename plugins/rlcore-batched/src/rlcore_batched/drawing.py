"""Pictures out of arrays: lines, discs and rectangles on a canvas, and grids of coloured cells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.uint8]
Colour = tuple[int, int, int]

WHITE: Colour = (255, 255, 255)
BLACK: Colour = (0, 0, 0)
GREY: Colour = (128, 128, 128)
RED: Colour = (204, 77, 77)
BLUE: Colour = (77, 102, 204)
GREEN: Colour = (77, 153, 77)
YELLOW: Colour = (230, 190, 60)


class Canvas:
    """A white picture of ``[height, width, 3]`` pixels that shows ``x`` and ``y`` (upwards) of a part of the plane."""

    def __init__(
        self, width: int, height: int, x: tuple[float, float], y: tuple[float, float], background: Colour = WHITE
    ) -> None:
        self.picture: Picture = np.empty((height, width, 3), np.uint8)
        self.picture[:] = background
        self._scale = width / (x[1] - x[0])
        self._x = x[0] + (np.arange(width) + 0.5) * (x[1] - x[0]) / width
        self._y = (y[1] - (np.arange(height) + 0.5) * (y[1] - y[0]) / height)[:, None]

    def disc(self, x: float, y: float, radius: float, colour: Colour) -> None:
        self.picture[(self._x - x) ** 2 + (self._y - y) ** 2 <= radius**2] = colour

    def box(self, left: float, right: float, bottom: float, top: float, colour: Colour) -> None:
        inside = (self._x >= left) & (self._x <= right) & (self._y >= bottom) & (self._y <= top)
        self.picture[inside] = colour

    def line(self, x: float, y: float, to_x: float, to_y: float, width: float, colour: Colour) -> None:
        """A stroke of ``width`` with round ends."""
        along_x, along_y = to_x - x, to_y - y
        squared = along_x**2 + along_y**2
        at = ((self._x - x) * along_x + (self._y - y) * along_y) / max(squared, 1e-12)
        at = np.clip(at, 0.0, 1.0)
        distance = (self._x - x - at * along_x) ** 2 + (self._y - y - at * along_y) ** 2
        self.picture[distance <= (width / 2) ** 2] = colour

    def curve(self, heights: NDArray[np.float64], colour: Colour) -> None:
        """One height for each column of pixels, two pixels thick."""
        self.picture[np.abs(self._y - heights) <= 1.0 / self._scale] = colour

    @property
    def columns(self) -> NDArray[np.float64]:
        """The ``x`` of each column of pixels."""
        return self._x


def cells(colours: Picture, size: int) -> Picture:
    """A grid of coloured cells ``[rows, columns, 3]`` with ``size`` pixels for a side of a cell, and lines between."""
    picture = colours.repeat(size, axis=0).repeat(size, axis=1)
    picture[::size] = GREY
    picture[:, ::size] = GREY
    return picture
