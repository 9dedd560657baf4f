"""Samples as torch tensors on the devices of a graph: pinned once, selected by minibatch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.acting.model_config import Precision

#: ``{column: [n, ...]}`` on one device.
Minibatch = dict[str, Tensor]


def dtype_of(precision: Precision) -> torch.dtype:
    """Of the parameters, and of all that is computed of them."""
    return torch.float64 if precision == "float64" else torch.float32


def pin_columns(columns: Mapping[str, NDArray[Any]], device: torch.device) -> Minibatch:
    """Copies of ``columns`` on a device; vectors ``[n]`` become columns ``[n, 1]``."""
    shaped = {name: array[:, None] if array.ndim == 1 else array for name, array in columns.items()}
    return {name: copied(array, device) for name, array in shaped.items()}


def in_precision(columns: Mapping[str, NDArray[Any]], dtype: torch.dtype) -> dict[str, NDArray[Any]]:
    """``columns`` as they are computed with: floats are float64 where that is ``dtype``."""
    if dtype != torch.float64:
        return dict(columns)
    return {name: array.astype(np.float64) if array.dtype == np.float32 else array for name, array in columns.items()}


def copied(array: NDArray[Any], device: torch.device) -> Tensor:
    """A copy: the array may be read-only, or belong to a sampler that goes on filling it."""
    # torch reads no array that runs backwards through memory, as a mirrored image does.
    return torch.tensor(array if array.flags.c_contiguous else np.ascontiguousarray(array), device=device)


def shown(array: NDArray[Any], device: torch.device) -> Tensor:
    """The array itself where torch can read it in place, else a copy: to be read at once and never written to."""
    if device.type == "cpu" and array.flags.c_contiguous and array.flags.writeable:
        return torch.from_numpy(array)
    return copied(array, device)


def select(columns: Minibatch, units: NDArray[np.int64] | None) -> Minibatch:
    """The rows ``units``; all of them, and no copy, where None."""
    if units is None:
        return columns
    index = torch.from_numpy(units if units.flags.writeable else units.copy())
    return {name: column.index_select(0, index.to(column.device)) for name, column in columns.items()}
