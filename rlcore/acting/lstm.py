"""A layer of long short-term memory in numpy, one step at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]


class LSTM:
    """The layer whose weights are ``prefix.weight_x [in, 4 h]``, ``weight_h [h, 4 h]`` and ``bias [4 h]``.

    The columns are those of the gates in the order input, forget, cell, output (Hochreiter & Schmidhuber 1997, with the
    forget gate of Gers et al. 2000).
    """

    def __init__(self, weights: Mapping[str, NDArray[Any]], prefix: str) -> None:
        self._weight_x, self._weight_h = weights[f"{prefix}.weight_x"], weights[f"{prefix}.weight_h"]
        self._bias = weights[f"{prefix}.bias"]
        self.units = len(self._weight_h)

    def __call__(self, x: Float32, output: Float32, cell: Float32) -> tuple[Float32, Float32]:
        """The output and the cell after inputs ``x [n, in]``, from those before, each ``[n, h]``; new arrays."""
        h = self.units
        gates = x @ self._weight_x
        gates += output @ self._weight_h
        gates += self._bias
        candidate = np.tanh(gates[:, 2 * h : 3 * h])
        # sigmoid(z) = (tanh(z / 2) + 1) / 2, which does not overflow.
        gates *= np.float32(0.5)
        np.tanh(gates, out=gates)
        gates += np.float32(1.0)
        gates *= np.float32(0.5)
        cell = gates[:, h : 2 * h] * cell
        candidate *= gates[:, :h]
        cell += candidate
        return gates[:, 3 * h :] * np.tanh(cell), cell
