"""gloo and NCCL, by torch.distributed: evaluators in processes of their own average gradients among themselves.

Groups are made one by one and belong to nobody else: the process's default group of ``torch.distributed`` is left to
whoever wants one. Everything that listens does so on the one address that a seat names; what connects is not asked who
it is, so that on a network those who can reach that address have to be trusted, as with any use of gloo or NCCL.
"""

from __future__ import annotations

import socket
from abc import abstractmethod
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.collective import Collective, Seat
from rlcore.errors import GroupBroken, UserError

#: What connections wait in line for a place to be opened.
_BACKLOG = 1024


class TorchCollective(Collective):
    """A rank of a process group of torch."""

    def __init__(self) -> None:
        self._listener: socket.socket | None = None
        self._store: Any = None
        self._group: Any = None

    def open(self, host: str) -> str:
        self._check()
        # Left to itself, torch listens on every address of the machine.
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        self._listener.bind((host, 0))
        self._listener.listen(_BACKLOG)
        return f"{host}:{self._listener.getsockname()[1]}"

    def join(self, seat: Seat) -> None:
        self._check()
        try:
            self._store = self._meet(seat)
            self._group = self._form(self._store, seat)
        except RuntimeError as error:  # those of torch.distributed are
            self.leave()
            raise GroupBroken(_one_line(error)) from error

    def _meet(self, seat: Seat) -> Any:
        from torch.distributed import TCPStore  # type: ignore[attr-defined]  # exported all the same

        host, _, port = seat.address.rpartition(":")
        settings: dict[str, Any] = {"wait_for_workers": False, "timeout": timedelta(seconds=seat.timeout_s)}
        if self._listener is None:
            return TCPStore(host, int(port), is_master=False, **settings)
        # From here on it is the store's.
        listener, self._listener = self._listener.detach(), None
        return TCPStore(host, int(port), is_master=True, master_listen_fd=listener, **settings)

    def add(self, array: NDArray[np.float32]) -> NDArray[np.float32]:
        if self._group is None:
            raise GroupBroken("there is no group")
        try:
            return self._sum(torch.from_numpy(array))
        except RuntimeError as error:  # those of torch.distributed are
            self.leave()
            raise GroupBroken(_one_line(error)) from error

    def leave(self) -> None:
        # Connections end with the objects; the others notice that.
        self._group = self._store = None
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    @abstractmethod
    def _check(self) -> None:
        """``UserError`` where this process cannot take part."""

    @abstractmethod
    def _form(self, store: Any, seat: Seat) -> Any:
        """The process group."""

    @abstractmethod
    def _sum(self, tensor: Tensor) -> NDArray[np.float32]:
        """The sum over the group."""


class Gloo(TorchCollective):
    """On CPUs, over the network or the loopback."""

    def _check(self) -> None:
        if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
            raise UserError("optimizer.collective: this build of torch has no gloo")

    def _form(self, store: Any, seat: Seat) -> Any:
        from torch.distributed import ProcessGroupGloo

        options: Any = ProcessGroupGloo._Options()  # type: ignore[attr-defined]  # without a public name
        # Left to itself, gloo takes the address that the machine's name leads to.
        options._devices = [ProcessGroupGloo.create_device(hostname=seat.host)]
        options._timeout = timedelta(seconds=seat.timeout_s)
        return ProcessGroupGloo(store, seat.rank, seat.size, options)

    def _sum(self, tensor: Tensor) -> NDArray[np.float32]:
        self._group.allreduce([tensor]).wait()
        return tensor.numpy()


class Nccl(TorchCollective):
    """Between GPUs, one in each process: what is added travels to the GPU and back.

    A process that waits in vain is ended by torch, and is lost as others are.
    """

    def _check(self) -> None:
        if not (torch.distributed.is_available() and torch.distributed.is_nccl_available()):
            raise UserError("optimizer.collective: this build of torch has no NCCL")
        if not torch.cuda.is_available():
            raise UserError("optimizer.collective: nccl needs a GPU in every evaluator, and there is none here")

    def _form(self, store: Any, seat: Seat) -> Any:
        from torch.distributed import ProcessGroupNCCL

        options = ProcessGroupNCCL.Options()
        options._timeout = timedelta(seconds=seat.timeout_s)
        return ProcessGroupNCCL(store, seat.rank, seat.size, options)

    def _sum(self, tensor: Tensor) -> NDArray[np.float32]:
        there = tensor.to(torch.device("cuda", torch.cuda.current_device()))
        self._group.allreduce([there]).wait()
        found: NDArray[np.float32] = there.cpu().numpy()
        return found


def _one_line(error: Exception) -> str:
    """Why, without what torch says of its own files."""
    text = " ".join(str(error).split())
    return text.partition("] ")[2] or text if text.startswith("[") else text
