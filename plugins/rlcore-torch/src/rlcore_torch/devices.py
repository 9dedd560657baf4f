"""Which devices a graph computes on, and with how many threads."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rlcore.errors import UserError

#: Below so many parameters a second thread costs more than it brings.
SMALL_MODEL = 1_000_000


def torch_devices(names: Sequence[str]) -> list[torch.device]:
    """``("cpu",)``, ``("cuda:0", "cuda:1")`` ... as devices. ``UserError`` for one that torch does not have here."""
    devices = []
    for name in names:
        try:
            device = torch.device(name)
        except RuntimeError as error:
            raise UserError(f"torch knows no device '{name}'") from error
        if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
            raise UserError(f"device '{name}' was asked for, but torch sees {torch.cuda.device_count()} CUDA devices")
        devices.append(device)
    if not devices:
        raise UserError("a policy graph needs at least one device")
    return devices


def limit_threads(devices: Sequence[torch.device], parameters: int) -> None:
    """Sets torch's threads within an operation to one where a model of few parameters computes on CPUs only.

    The setting is the process's. It is made when a graph is built, never by importing this package; large models and
    those on accelerators leave it as it is. With one thread results do not depend on the number of cores either.
    """
    if parameters < SMALL_MODEL and all(device.type == "cpu" for device in devices):
        torch.set_num_threads(1)
