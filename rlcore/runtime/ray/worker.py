"""What runs in the process of a worker: the object that ``build`` made, called by the names of its methods."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import Any

import cloudpickle
import ray

from rlcore.runtime.ray.crossing import crossing
from rlcore.runtime.ray.failures import Failed
from rlcore.runtime.reduction import average_counted
from rlcore.runtime.sending import adopt


class Worker:
    """Holds one object. It starts whatever happens: what goes wrong is raised by every call, as itself."""

    def __init__(self, program: bytes, build: bytes, name: str, packed: bool) -> None:
        self._packed = packed
        self._where = f"worker {name}, process {os.getpid()} on {ray.util.get_node_ip_address()}"
        self._object: Any = None
        self._failed: Failed | None = None
        #: What the object is to be made of; None once that has been tried.
        self._plan: tuple[bytes, bytes] | None = program, build

    def started(self) -> None:
        """Says that there is a process."""

    def make(self) -> None:
        """Makes the object, unless that has been done: whoever has a handle may call before who spawned it."""
        if self._plan is None:
            return
        (known, build), self._plan = self._plan, None
        try:
            adopt(known)
            self._object = cloudpickle.loads(build)()
        except Exception as error:
            self._failed = Failed.of(error.with_traceback(_below_here(error.__traceback__)), self._where)

    def call(self, method: str, returns: int, *args: Any) -> Any:
        """Calls ``method`` of the object, for so many results."""
        self.make()
        if self._failed is not None:
            raise self._failed
        result = self._reporting(lambda: getattr(self._object, method)(*args))
        parts = [crossing(part, self._packed) for part in ((result,) if returns == 1 else result)]
        return parts[0] if returns == 1 else tuple(parts)

    def average(self, count: int, *parts: Any) -> Any:
        """The average of ``count`` trees, of which the counts follow, and its counts."""
        mean, total = self._reporting(lambda: average_counted(list(zip(parts[:count], parts[count:], strict=True))))
        return crossing(mean), crossing(total)

    def address(self) -> str:
        """That of the node, as the others of the cluster know it."""
        found: str = ray.util.get_node_ip_address()
        return found

    def end(self) -> None:
        """Lets the object close what it has open, if it can."""
        if hasattr(self._object, "close"):
            self._object.close()

    def _reporting(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:
            raise Failed.of(error.with_traceback(_below_here(error.__traceback__)), self._where) from None


def _below_here(trace: TracebackType | None) -> TracebackType | None:
    """The part of a trace that is the object's own."""
    below = trace
    while below is not None and below.tb_frame.f_code.co_filename == __file__:
        below = below.tb_next
    return below


ACTOR: Any = ray.remote(Worker)
