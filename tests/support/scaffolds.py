"""One new plugin of each kind, and how it is put on the path without installing it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

from rlcore.registry import KINDS
from rlcore.scaffold import new_plugin

#: ``{kind: name}`` of the plugins that tests write.
NAMES = {kind: f"new_{kind}" for kind in KINDS} | {"policy_graph": "new.graph"}


def write_one_of_each(folder: Path) -> dict[str, Path]:
    """``{kind: its folder}``"""
    return {kind: new_plugin(kind, name, folder) for kind, name in NAMES.items()}


def build_wheels(places: Iterable[Path], folder: Path) -> list[Path]:
    """The wheel of each plugin, built into ``folder`` from what is installed here."""
    for place in places:
        command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
    return sorted(folder.glob("*.whl"))


def unpack(wheels: Iterable[Path], site: Path) -> None:
    """What installing them would: code, metadata and entry points."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)


def run_with(site: Path, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs ``python command`` where ``site`` is on the path before all that is there now."""
    path = os.pathsep.join([str(site), *(part for part in sys.path if part)])
    settings = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *command], cwd=cwd, env=settings, capture_output=True, text=True, timeout=300
    )
