"""What the rules for runtimes look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rlcore import registry
from rlcore.runtime.base import Handle, Runtime
from rlcore.testing.kit.rules import once
from rlcore.testing.kit.runtime.probe import Probe

#: A name, a class, a function that makes a runtime, or a runtime itself, which is ended then.
RuntimeSource = str | Callable[[], Runtime] | Runtime


class RuntimeLab:
    """Holds one runtime for all rules, as starting one may take seconds."""

    case = ""

    def __init__(self, source: RuntimeSource) -> None:
        """Raises ``PluginError`` for a name that leads nowhere."""
        self.build: Callable[[], Runtime]
        #: How the runtime is called in reports.
        self.name: str
        if isinstance(source, str):
            self.build, self.name = registry.load("runtime", source), source
        elif isinstance(source, Runtime):
            self.build, self.name = lambda: source, type(source).__name__
        else:
            self.build, self.name = source, getattr(source, "__name__", str(source))

    @once
    def runtime(self) -> Runtime:
        """The one runtime."""
        return self.build()

    @contextmanager
    def worker(self, build: Callable[[], Any] = Probe) -> Iterator[Handle]:
        """A worker for a while."""
        handle = self.runtime.spawn(build)
        try:
            yield handle
        finally:
            self.runtime.kill(handle)

    def get(self, refs: Any) -> Any:
        """The values of ``refs``."""
        return self.runtime.get(refs)

    def call(self, handle: Handle, method: str, *args: Any) -> Any:
        """The result of a call."""
        return self.runtime.get(handle.submit(method, *args))

    def error_of(self, ref: Any) -> Exception | None:
        """What getting ``ref`` raises."""
        try:
            self.runtime.get(ref)
        except Exception as error:
            return error
        return None

    def begin(self) -> None:
        """Nothing to prepare."""

    def close(self) -> None:
        """Ends the runtime, if it was started."""
        started = vars(self).get("runtime")
        if isinstance(started, Runtime):
            started.close()
