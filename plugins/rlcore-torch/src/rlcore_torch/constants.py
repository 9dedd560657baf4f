"""Numbers as tensors, made once: putting a number on a device takes longer than an operation with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

_KEPT = 64


class Constants:
    """Vectors and scalars that seldom change, by device. What is handed out must not be changed in place."""

    def __init__(self) -> None:
        self._kept: dict[Any, Any] = {}

    def vector(self, values: Sequence[float], divisor: int, zeros: int, device: torch.device) -> Tensor:
        """``values / divisor`` and so many ``zeros``, float32 ``[len(values) + zeros]``."""
        key = (device, divisor, zeros, *values)
        if key not in self._kept:
            self._keep(key, torch.tensor([*values, *[0.0] * zeros], device=device).div_(divisor))
        found: Tensor = self._kept[key]
        return found

    def scalars(self, values: Mapping[str, float], device: torch.device) -> dict[str, Tensor]:
        """Each of ``values`` as a float32 scalar."""
        key = (device, *values.items())
        if key not in self._kept:
            self._keep(key, {name: torch.tensor(value, device=device) for name, value in values.items()})
        found: dict[str, Tensor] = self._kept[key]
        return found

    def _keep(self, key: Any, value: Any) -> None:
        # Schedules bring new numbers all the time.
        if len(self._kept) >= _KEPT:
            self._kept.clear()
        self._kept[key] = value
