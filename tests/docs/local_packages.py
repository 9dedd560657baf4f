"""What the pages do with packages of their own: built from what is here, and put on the path of the commands after it.

``pip install --editable FOLDER`` adds the package's sources and its metadata, ``pip install WHEEL`` unpacks the wheel,
and ``pip wheel`` builds one. Nothing is downloaded, and nothing of this environment changes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

SITE = Path(".installed")


def is_local(target: str) -> bool:
    """Whether ``pip`` is given a folder with a package in it, or a wheel, of the current folder."""
    path = Path(without_extras(target))
    return path.suffix == ".whl" or (path / "pyproject.toml").is_file()


def without_extras(target: str) -> str:
    return target.strip("'\"").partition("[")[0]


def install(targets: Sequence[str]) -> None:
    """Each of ``targets``, a wheel or the folder of a package that is to be edited."""
    for target in map(Path, map(without_extras, targets)):
        if target.suffix == ".whl":
            _unpack(target, whole=True)
            _on_path(SITE)
        else:
            _unpack(build(target, SITE / "wheels"), whole=False)
            _on_path(SITE)
            _on_path(target / "src")


def build(folder: Path, wheels: Path) -> Path:
    """The wheel of the package in ``folder``."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(wheels.absolute())]
    subprocess.run(command, cwd=folder, check=True)
    return max(wheels.glob("*.whl"), key=lambda wheel: wheel.stat().st_mtime)


def _unpack(wheel: Path, whole: bool) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if whole or ".dist-info/" in name]
        archive.extractall(SITE, names)


def _on_path(folder: Path) -> None:
    """First of all: a wheel comes before the sources that were edited until then."""
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder.absolute()), *filter(None, known)])
