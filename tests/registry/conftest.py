"""What tests of the registry share."""

from __future__ import annotations

import pytest
from support.packages import Install, install

from rlcore import registry

__all__ = ["Install", "install"]


@pytest.fixture(autouse=True)
def no_registrations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})


#: A module with a complete runtime.
RUNTIME = """
    from rlcore.runtime.base import Runtime

    class Slow(Runtime):
        '''Runs everything slowly.

        And says so.
        '''
        def spawn(self, build, resources=None): ...
        def get(self, refs): ...
        def put(self, value): ...
        def wait(self, refs, n=1, timeout=None): ...
        def kill(self, handle): ...
        def now(self): ...
        def capacity(self): ...
        def child(self): ...
        def reduce(self, refs, counts): ...
        def close(self): ...

    class Half(Runtime):
        def put(self, value): ...
"""


@pytest.fixture
def runtime_source() -> str:
    return RUNTIME
