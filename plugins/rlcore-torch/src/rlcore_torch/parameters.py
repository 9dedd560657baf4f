"""The parameters of a model in one flat tensor, and their gradients in another. It is no ``torch.nn.Module``.

One tensor makes the global norm, clipping and the optimizer a call each, whatever the number of layers, and copies and
comparisons of all weights likewise. Models compute with *leaves*, views of it that autograd differentiates; the
outside sees *canonical* weights, views by name. A leaf may stack several canonical weights of one shape, so that equal
layers of two networks are one batched product.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rlcore.policy_graph import Weights


@dataclass(frozen=True)
class Leaf:
    """A tensor that a model computes with: the canonical weights ``names``, each of ``shape``, one after the other.

    ``view`` is the leaf's own shape, of as many elements as all of them together. With ``axes`` it is that of a single
    weight with its axes in that order: ``(1, 0)`` is the transpose of a matrix.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    view: tuple[int, ...]
    axes: tuple[int, ...] | None = None

    @property
    def size(self) -> int:
        """The number of elements."""
        return len(self.names) * math.prod(self.shape)


class FlatParameters:
    """``values`` and ``gradients``, ``[P]``, and views of them.

    ``leaves`` are in the order of ``layout``. ``weights`` and ``weight_gradients`` are by canonical name and never
    tracked by autograd.
    """

    def __init__(
        self, layout: Sequence[Leaf], device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> None:
        self._begin(layout, *torch.zeros(2, sum(leaf.size for leaf in layout), device=device, dtype=dtype).unbind())

    def _begin(self, layout: Sequence[Leaf], values: Tensor, gradients: Tensor) -> None:
        self.layout = tuple(layout)
        self.values, self.gradients = values, gradients
        self.leaves = [
            part.detach().view(leaf.view).requires_grad_()
            for part, leaf in zip(torch.split(self.values, [leaf.size for leaf in layout]), layout, strict=True)
        ]
        self._places = _places(layout)
        self.weights = self.named(self.values)
        self.weight_gradients = self.named(self.gradients)

    def part(self, first: int, leaves: int) -> FlatParameters:
        """Some leaves that follow each other, from number ``first`` on; the memory is shared."""
        layout = self.layout[first : first + leaves]
        start, size = (sum(leaf.size for leaf in own) for own in (self.layout[:first], layout))
        part = FlatParameters.__new__(FlatParameters)
        part._begin(layout, self.values[start : start + size], self.gradients[start : start + size])
        return part

    def set_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Copies gradients by leaf into ``gradients``."""
        torch.cat([gradient.reshape(-1) for gradient in gradients], out=self.gradients)

    def add_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Adds gradients by leaf to ``gradients``."""
        self.gradients.add_(torch.cat([gradient.reshape(-1) for gradient in gradients]))

    def named(self, flat: Tensor) -> dict[str, Tensor]:
        """Views of ``flat [P]`` by canonical name: the weights, their gradients, an optimizer's moments."""
        views: dict[str, Tensor] = {}
        offset = 0
        for leaf in self.layout:
            size = math.prod(leaf.shape)
            for name in leaf.names:
                part = flat[offset : offset + size]
                view = part.view(leaf.shape if leaf.axes is None else leaf.view)
                views[name] = view if leaf.axes is None else _canonical(view, leaf.axes)
                offset += size
        return views

    def zeros(self) -> Tensor:
        """Another tensor ``[P]``: for what an optimizer remembers of each number."""
        return torch.zeros_like(self.values)

    def write(self, flat: Tensor, arrays: Mapping[str, np.ndarray]) -> None:
        """Copies ``arrays`` into the parts of the same names of ``flat [P]``."""
        write(self.named(flat), arrays)

    def clear(self, flat: Tensor) -> None:
        """Makes ``flat [P]`` zeros."""
        flat.zero_()

    def arrays(self, flat: Tensor, names: Iterable[str] | None = None) -> Weights:
        """Copies of ``flat [P]`` by canonical name, on the host; those in ``names`` only, in that order, where given.

        All of them are one copy between devices; ``KeyError`` for a name that there is not.
        """
        host = flat.detach().cpu().numpy()
        return {name: self._places[name].copy(host) for name in (self._places if names is None else names)}


class _Place(NamedTuple):
    """Where a canonical weight lies in a flat array, and how."""

    start: int
    stop: int
    view: tuple[int, ...]
    axes: tuple[int, ...] | None

    def copy(self, host: np.ndarray) -> np.ndarray:
        """A copy of its own, in C order."""
        view = host[self.start : self.stop].reshape(self.view)
        return np.array(view if self.axes is None else view.transpose(self.axes), order="C")


def _places(layout: Sequence[Leaf]) -> dict[str, _Place]:
    places, at = {}, 0
    for leaf in layout:
        view, axes = (leaf.shape, None) if leaf.axes is None else (leaf.view, leaf.axes)
        back = None if axes is None else tuple(axes.index(axis) for axis in range(len(axes)))
        for name in leaf.names:
            places[name] = _Place(at, at + math.prod(leaf.shape), view, back)
            at += math.prod(leaf.shape)
    return places


def _canonical(view: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The inverse of ``permute(axes)``."""
    return view.permute([axes.index(axis) for axis in range(len(axes))])


def write(views: Mapping[str, Tensor], arrays: Mapping[str, np.ndarray]) -> None:
    """Copies ``arrays`` into the views of the same names."""
    with torch.no_grad():
        for name, array in arrays.items():
            views[name].copy_(torch.tensor(array))
