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
        at = self._window(x - radius, x + radius, y - radius, y + radius)
        inside = (self._x[at[1]] - x) ** 2 + (self._y[at[0]] - y) ** 2 <= radius**2
        self.picture[at][inside] = colour

    def box(self, left: float, right: float, bottom: float, top: float, colour: Colour) -> None:
        self.picture[self._window(left, right, bottom, top)] = colour

    def line(self, x: float, y: float, to_x: float, to_y: float, width: float, colour: Colour) -> None:
        """A stroke of ``width`` with round ends."""
        half, along_x, along_y = width / 2, to_x - x, to_y - y
        at = self._window(min(x, to_x) - half, max(x, to_x) + half, min(y, to_y) - half, max(y, to_y) + half)
        off_x, off_y = self._x[at[1]] - x, self._y[at[0]] - y
        along = np.clip((off_x * along_x + off_y * along_y) / max(along_x**2 + along_y**2, 1e-12), 0.0, 1.0)
        distance = (off_x - along * along_x) ** 2 + (off_y - along * along_y) ** 2
        self.picture[at][distance <= half**2] = colour

    def _window(self, left: float, right: float, bottom: float, top: float) -> tuple[slice, slice]:
        """The rows and columns of pixels in a rectangle of the plane."""
        downwards = -self._y[:, 0]
        rows = slice(*np.searchsorted(downwards, (-top, -bottom)).tolist())
        return rows, slice(*np.searchsorted(self._x, (left, right)).tolist())

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
