"""Numbers as tensors, made once: putting a number on a device takes longer than an operation with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

_KEPT = 64


class Constants:
    """Vectors and scalars that seldom change, of the device and the dtype of another tensor, ``like``. What is handed
    out must not be changed in place."""

    def __init__(self) -> None:
        self._kept: dict[Any, Any] = {}

    def vector(self, values: Sequence[float], divisor: int, zeros: int, like: Tensor) -> Tensor:
        """``values / divisor`` and so many ``zeros``, ``[len(values) + zeros]``."""
        key = (like.device, like.dtype, divisor, zeros, *values)
        if key not in self._kept:
            numbers = torch.tensor([*values, *[0.0] * zeros], device=like.device, dtype=like.dtype)
            self._keep(key, numbers.div_(divisor))
        found: Tensor = self._kept[key]
        return found

    def scalars(self, values: Mapping[str, float], like: Tensor) -> dict[str, Tensor]:
        """Each of ``values`` as a scalar."""
        key = (like.device, like.dtype, *values.items())
        if key not in self._kept:
            numbers = {n: torch.tensor(value, device=like.device, dtype=like.dtype) for n, value in values.items()}
            self._keep(key, numbers)
        found: dict[str, Tensor] = self._kept[key]
        return found

    def _keep(self, key: Any, value: Any) -> None:
        # Schedules bring new numbers all the time.
        if len(self._kept) >= _KEPT:
            self._kept.clear()
        self._kept[key] = value
