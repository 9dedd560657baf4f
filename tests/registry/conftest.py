"""Installed packages without installing anything: metadata folders of our own, and no others in sight."""

from __future__ import annotations

import importlib.metadata
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pytest

from rlcore import registry


class Install(Protocol):
    """Writes a distribution as an installer would, each into a folder of its own on ``sys.path``."""

    def __call__(
        self,
        name: str,
        version: str = "1.0",
        *,
        groups: Mapping[str, Mapping[str, str]] | None = None,
        modules: Mapping[str, str] | None = None,
    ) -> Path: ...


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    folders: list[str] = []
    before = set(sys.modules)

    def write(name, version="1.0", *, groups=None, modules=None):
        folder = tmp_path / "site" / name
        info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        lines = []
        for group, entry_points in (groups or {}).items():
            lines += [f"[{group}]", *(f"{key} = {target}" for key, target in entry_points.items())]
        (info / "entry_points.txt").write_text("\n".join(lines))
        for module, source in (modules or {}).items():
            (folder / f"{module}.py").write_text(textwrap.dedent(source))
        folders.append(str(folder))
        monkeypatch.syspath_prepend(str(folder))
        return folder

    def distributions(**_context):
        return importlib.metadata.Distribution.discover(path=folders)

    monkeypatch.setattr(importlib.metadata, "distributions", distributions)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield write
    for module in set(sys.modules) - before:
        origin = getattr(sys.modules[module], "__file__", None)
        if origin and origin.startswith(str(tmp_path)):
            del sys.modules[module]


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
