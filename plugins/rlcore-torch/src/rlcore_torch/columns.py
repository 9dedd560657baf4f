"""Samples as torch tensors on the devices of a graph: pinned once, selected by minibatch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

#: ``{column: [n, ...]}`` on one device.
Minibatch = dict[str, Tensor]


def pin_columns(columns: Mapping[str, NDArray[Any]], devices: Sequence[torch.device]) -> list[Minibatch]:
    """Copies of ``columns`` on each device; vectors ``[n]`` become columns ``[n, 1]``."""
    shaped = {name: array[:, None] if array.ndim == 1 else array for name, array in columns.items()}
    return [{name: copied(array, device) for name, array in shaped.items()} for device in devices]


def copied(array: NDArray[Any], device: torch.device) -> Tensor:
    """A copy: the array may be read-only, or belong to a sampler that goes on filling it."""
    # torch reads no array that runs backwards through memory, as a mirrored image does.
    return torch.tensor(array if array.flags.c_contiguous else np.ascontiguousarray(array), device=device)


def shown(array: NDArray[Any], device: torch.device) -> Tensor:
    """The array itself where torch can read it in place, else a copy: to be read at once and never written to."""
    if device.type == "cpu" and array.flags.c_contiguous and array.flags.writeable:
        return torch.from_numpy(array)
    return copied(array, device)


def select(pinned: Sequence[Minibatch], units: NDArray[np.int64] | None) -> list[Minibatch]:
    """The rows ``units`` (all where None), split evenly over the devices; devices left without a row are left out."""
    if units is None:
        if len(pinned) == 1:
            return [pinned[0]]
        units = np.arange(len(next(iter(pinned[0].values()))))
    index = torch.from_numpy(units if units.flags.writeable else units.copy())
    shares = [index] if len(pinned) == 1 else index.tensor_split(len(pinned))
    return [
        {name: column.index_select(0, share.to(column.device)) for name, column in columns.items()}
        for columns, share in zip(pinned, shares, strict=True)
        if len(share)
    ]
