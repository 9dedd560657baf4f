"""Ctrl-C during training: the first stops at the next safe point, the second at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

_NOTE = b"\nstopping at the next safe point, with a checkpoint; once more stops at once\n"


class Interrupts:
    """While entered, the first SIGINT or SIGTERM sets ``requested``, a second one raises ``KeyboardInterrupt``.

    Python delivers signals to the main thread only; entered in another one, this does nothing. The handlers that were
    there before are put back on leaving.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            # None stands for a handler that was not set from Python and cannot be put back.
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        self._before = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        # Not print: the signal may have come in the middle of one.
        os.write(2, _NOTE)
