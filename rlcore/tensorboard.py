"""Progress as TensorBoard events, written with the ``tensorboard`` package alone: no framework is imported."""

from __future__ import annotations

import importlib.util
import os
import socket
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any


def open_events(folder: str | os.PathLike[str]) -> EventWriter | None:
    """A writer into ``folder`` where TensorBoard is installed, else None.

    One that is installed but cannot be imported is said in a warning: nobody asked for it by name.
    """
    if importlib.util.find_spec("tensorboard") is None:
        return None
    try:
        return EventWriter(folder)
    except ImportError as error:
        warnings.warn(f"no TensorBoard events: the installed tensorboard cannot be imported ({error})", stacklevel=2)
        return None


class EventWriter:
    """Writes the numbers of each row as scalars over environment steps. Not a writer of graphs or histograms.

    ``ImportError`` where tensorboard is missing. The package's own ``EventFileWriter`` is avoided on purpose: it
    imports a whole framework where that is installed, for the sake of its file functions.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event, self._session, self._summary = event_pb2.Event, event_pb2.SessionLog, summary_pb2.Summary
        # Readers take the files of a folder in the order of their names.
        name = f"events.out.tfevents.{time.time_ns():020d}.{socket.gethostname()}.{os.getpid()}"
        self.path = Path(folder) / name
        self._records = RecordWriter(open(self.path, "xb"))  # noqa: SIM115  (closed by close)
        self._started = False
        self._write(self._event(wall_time=time.time(), file_version="brain.Event:2"))

    def write(self, row: Mapping[str, Any]) -> None:
        """Adds the numbers of ``row`` at its ``env_steps``; what is None, a bool or a string is left out."""
        step = int(row["env_steps"])
        if not self._started:
            # Tells TensorBoard that what an earlier, interrupted process wrote from this step on no longer counts.
            start = self._session(status=self._session.START)
            self._write(self._event(wall_time=time.time(), step=step, session_log=start))
            self._started = True
        values = [
            self._summary.Value(tag=key, simple_value=float(value))
            for key, value in row.items()
            if key != "env_steps" and isinstance(value, int | float) and not isinstance(value, bool)
        ]
        self._write(self._event(wall_time=time.time(), step=step, summary=self._summary(value=values)))
        self._records.flush()

    def close(self) -> None:
        """Closes the file; may be called twice."""
        if not self._records.closed:
            self._records.close()

    def __enter__(self) -> EventWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, event: Any) -> None:
        self._records.write(event.SerializeToString())
