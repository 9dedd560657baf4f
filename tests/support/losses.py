"""Workers on Ray that are killed, and who is told of it."""

from __future__ import annotations

import os
import signal
from typing import Any

from support.processes import own_pid


class Losses:
    """A hook that notes who was lost: what it is called, and its place."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def worker_lost(self, index: int, worker: str) -> None:
        self.told.append((worker, index))


def kill(handle: Any) -> None:
    """Ends the process of a worker on Ray as the system would for want of memory."""
    import ray

    os.kill(ray.get(handle.actor.__ray_call__.remote(own_pid)), signal.SIGKILL)
