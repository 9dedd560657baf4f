"""Which devices a graph computes on, and with how many threads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from rlcore.errors import UserError

#: Below so many parameters a second thread costs more than it brings.
SMALL_MODEL = 1_000_000
#: Set in the environment, they say how many threads torch is to use.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


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

    The setting is the process's. It is made when a graph is built, never by importing this package, and not where
    anybody has said otherwise: where :data:`THREAD_VARIABLES` has a variable that is set, or torch's number is none of
    those that it starts with, the numbers of cores and processors, because ``torch.set_num_threads`` was called.
    Whoever calls it with one of those calls it after the graph is built, or sets the variable. Large models and those
    on accelerators leave the number as it is. With one thread results do not depend on the number of cores either.
    """
    said = any(os.environ.get(name) for name in THREAD_VARIABLES) or torch.get_num_threads() not in default_threads()
    if not said and parameters < SMALL_MODEL and all(device.type == "cpu" for device in devices):
        torch.set_num_threads(1)


def default_threads() -> set[int]:
    """The numbers of threads that torch may start with: one for each processor or core, of the machine or of those
    that this process may run on."""
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    found = {os.cpu_count() or 1, len(usable)}
    for processors in (usable, set(range(os.cpu_count() or 1))):
        files = [Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list") for number in processors]
        found.add(len({file.read_text() for file in files if file.exists()}))
    return found - {0}
