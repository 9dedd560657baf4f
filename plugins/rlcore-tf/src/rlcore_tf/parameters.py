"""The parameters of a model in one flat variable.

One variable makes the global norm, clipping and the optimizer a few operations, whatever the number of layers, and
copies of all weights likewise. Models compute with canonical weights, parts of it by name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.policy_graph import Weights
from rlcore_tf.backend import tf


class FlatParameters:
    """``variable [P]``: the weights of these ``shapes`` by canonical name, one behind the other. Zeros at first.

    No gradient flows to those that are ``constant``.
    """

    def __init__(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        device: str,
        dtype: Any,
        constant: frozenset[str] = frozenset(),
    ) -> None:
        self._constant = constant
        self.shapes = dict(shapes)
        self.device = device
        self.dtype = dtype
        self._sizes = [math.prod(shape) for shape in self.shapes.values()]
        ends = np.cumsum(self._sizes, dtype=np.int64)
        self._places = {
            name: slice(int(end) - size, int(end))
            for name, size, end in zip(self.shapes, self._sizes, ends, strict=True)
        }
        self.size = sum(self._sizes)
        self.variable = self.zeros()

    def zeros(self) -> Any:
        """Another variable ``[P]``: for what an optimizer remembers of each number."""
        with tf.device(self.device):
            return tf.Variable(tf.zeros([self.size], self.dtype))

    def clear(self, variable: Any) -> None:
        """Makes a variable ``[P]`` zeros."""
        variable.assign(tf.zeros_like(variable))

    def named(self, flat: Any) -> dict[str, Any]:
        """The parts of a tensor ``[P]`` by name; may be traced and differentiated."""
        parts = tf.split(flat, self._sizes)
        named = {
            name: tf.reshape(part, shape)
            for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }
        return named | {name: tf.stop_gradient(named[name]) for name in self._constant}

    def arrays(self, variable: Any, names: Iterable[str] | None = None) -> Weights:
        """Copies of a variable ``[P]`` by name, on the host; those in ``names`` only, in that order, where given.
        ``KeyError`` for a name that there is not."""
        return self.split(variable.numpy(), self.shapes if names is None else names)

    def split(self, flat: NDArray[Any], names: Iterable[str]) -> Weights:
        """Copies of the parts of an array ``[P]`` of these names."""
        return {name: flat[self._places[name]].reshape(self.shapes[name]).copy() for name in names}

    def flat(self, arrays: Mapping[str, NDArray[Any]], base: NDArray[Any] | None = None) -> NDArray[Any]:
        """``arrays`` by name as one ``[P]``; what has no array is as in ``base``, or 0."""
        flat = np.zeros(self.size, self.dtype.as_numpy_dtype) if base is None else base.copy()
        for name, array in arrays.items():
            flat[self._places[name]] = np.asarray(array).reshape(-1)
        return flat

    def write(self, variable: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Copies ``arrays`` into the parts of the same names of a variable ``[P]``."""
        variable.assign(self.flat(arrays, variable.numpy()))
