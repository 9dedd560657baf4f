"""Installed packages without installing anything: metadata folders of our own, and no others in sight."""

from __future__ import annotations

import importlib.metadata
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pytest


class Install(Protocol):
    """Writes a distribution as an installer would, each into a folder of its own on ``sys.path``.

    ``metadata`` are further lines of its core metadata, ``{field: value}``.
    """

    def __call__(
        self,
        name: str,
        version: str = "1.0",
        *,
        groups: Mapping[str, Mapping[str, str]] | None = None,
        modules: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Path: ...


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    folders: list[str] = []
    before = set(sys.modules)

    def write(name, version="1.0", *, groups=None, modules=None, metadata=None):
        folder = tmp_path / "site" / name
        info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        fields = {"Metadata-Version": "2.1", "Name": name, "Version": version, **(metadata or {})}
        (info / "METADATA").write_text("".join(f"{field}: {value}\n" for field, value in fields.items()))
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
