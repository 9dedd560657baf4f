"""Wheels of every distribution, built once, and environments that hold one distribution and what it declares."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
SITE_PACKAGES = Path(importlib.metadata.distribution("numpy").locate_file(""))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of this folder is marked, and goes to one worker, so that the wheels are built once."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.packaging)
            item.add_marker(pytest.mark.xdist_group("packaging"))


@dataclass(frozen=True)
class Project:
    """A distribution of this repository, from its source."""

    folder: Path
    metadata: Mapping[str, Any] = field(hash=False)

    @property
    def name(self) -> str:
        return str(self.metadata["name"])

    @property
    def source(self) -> Path:
        """The folder of its one package."""
        if self.folder == ROOT:
            return self.folder / "rlcore"
        (package,) = (path.parent for path in self.folder.glob("src/*/__init__.py"))
        return package

    @property
    def module(self) -> str:
        return self.source.name

    def entry_points(self) -> dict[tuple[str, str], str]:
        """``{(group, name): object}``"""
        groups: dict[str, dict[str, str]] = self.metadata.get("entry-points", {})
        return {(group, name): value for group, names in groups.items() for name, value in names.items()}

    def requirements(self) -> list[Requirement]:
        return [Requirement(line) for line in self.metadata["dependencies"]]


def find_projects() -> dict[str, Project]:
    """The kernel, the plugins and the examples, by distribution name."""
    files = [ROOT / "pyproject.toml", *sorted(ROOT.glob("plugins/*/pyproject.toml"))]
    files += sorted(ROOT.glob("examples/*/pyproject.toml"))
    projects = [Project(file.parent, tomllib.loads(file.read_text())["project"]) for file in files]
    return {project.name: project for project in projects}


PROJECTS = find_projects()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with an argument ``project`` runs for each distribution."""
    if "project" in metafunc.fixturenames:
        metafunc.parametrize("project", list(PROJECTS.values()), ids=list(PROJECTS))


@pytest.fixture(scope="session")
def projects() -> dict[str, Project]:
    return PROJECTS


@dataclass(frozen=True)
class Wheel:
    """A built distribution."""

    path: Path

    def names(self) -> list[str]:
        with zipfile.ZipFile(self.path) as archive:
            return archive.namelist()

    def read(self, suffix: str) -> str:
        """The text of the one file that ends so."""
        with zipfile.ZipFile(self.path) as archive:
            (name,) = [name for name in archive.namelist() if name.endswith(suffix)]
            return archive.read(name).decode()

    def metadata(self) -> Message:
        return Parser().parsestr(self.read(".dist-info/METADATA"))


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Wheel]:
    """The wheel of each distribution, by its name."""
    folder = tmp_path_factory.mktemp("wheels")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    run([*command, "--wheel-dir", str(folder), *(str(project.folder) for project in PROJECTS.values())])
    built = {canonicalize_name(path.name.split("-")[0]): Wheel(path) for path in folder.glob("*.whl")}
    assert sorted(built) == sorted(PROJECTS)
    return {str(name): wheel for name, wheel in built.items()}


@dataclass(frozen=True)
class Environment:
    """A virtual environment."""

    folder: Path

    def python(self, code: str, *, cwd: Path | None = None) -> str:
        """What ``code`` prints in an interpreter that sees this environment and nothing else."""
        return run([str(self.folder / "bin/python"), "-I", "-c", code], cwd=cwd or self.folder)

    def script(self, file: Path, *arguments: str, cwd: Path) -> str:
        """The same for a file."""
        return run([str(self.folder / "bin/python"), "-I", str(file), *arguments], cwd=cwd)

    def install(self, *wheels: Path) -> None:
        """Installs these and nothing that they require."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.folder / "bin/python"), "install", "--quiet"]
        run([*pip, "--no-index", "--no-deps", "--no-compile", *map(str, wheels)])

    def rlcore(self, *arguments: str, cwd: Path | None = None) -> str:
        """What the ``rlcore`` command of this environment prints."""
        return run([str(self.folder / "bin/rlcore"), *arguments], cwd=cwd or self.folder)


Alone = Callable[..., Environment]


@pytest.fixture(scope="session")
def alone(wheels: Mapping[str, Wheel], tmp_path_factory: pytest.TempPathFactory) -> Alone:
    """``alone(name, ...)``: an environment with these distributions from their wheels and what they declare.

    Other people's packages are links into the environment that runs the tests, to those alone that the declared
    requirements lead to: an undeclared import fails as it would for a user, and nothing is downloaded.
    """
    made: dict[tuple[str, ...], Environment] = {}

    def make(*names: str) -> Environment:
        if names not in made:
            ours, others = closure(names, wheels)
            folder = tmp_path_factory.mktemp("-".join(names)) / "venv"
            venv.create(folder, with_pip=False, symlinks=True)
            link(others, next(folder.glob("lib/python*/site-packages")))
            made[names] = Environment(folder)
            made[names].install(*(wheels[name].path for name in ours))
        return made[names]

    return make


def closure(names: Iterable[str], wheels: Mapping[str, Wheel]) -> tuple[list[str], list[str]]:
    """What installing ``names`` brings: distributions of ours, and those of others, by their declared requirements."""
    todo = [(Requirement(name), "the test") for name in names]
    seen: set[tuple[str, str]] = set()
    ours: dict[str, None] = {}
    others: dict[str, None] = {}
    while todo:
        wanted, whose = todo.pop()
        name = canonicalize_name(wanted.name)
        if name in wheels:
            found: Message | importlib.metadata.PackageMetadata = wheels[name].metadata()
            ours[name] = None
        else:
            found = importlib.metadata.metadata(name)
            others[name] = None
        assert wanted.specifier.contains(found["Version"], prereleases=True), f"{whose} wants {wanted}"
        for extra in ("", *wanted.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            lines = [Requirement(line) for line in found.get_all("Requires-Dist") or []]
            todo += [(line, name) for line in lines if line.marker is None or line.marker.evaluate({"extra": extra})]
    return list(ours), list(others)


def link(names: Iterable[str], target: Path) -> None:
    """Links what the installed distributions ``names`` own into ``target``, and no other distribution's files."""
    wanted = set(names)
    owners: dict[str, set[str]] = {}
    owned: dict[str, list[Path]] = {}
    for distribution in importlib.metadata.distributions(path=[str(SITE_PACKAGES)]):
        owner = canonicalize_name(distribution.metadata["Name"])
        for file in distribution.files or []:
            if file.parts[0] not in ("..", "__pycache__"):
                owners.setdefault(file.parts[0], set()).add(owner)
                if owner in wanted:
                    owned.setdefault(file.parts[0], []).append(Path(file))
    for entry, files in owned.items():
        if owners[entry] <= wanted:
            (target / entry).symlink_to(SITE_PACKAGES / entry)
        else:
            # A folder that several distributions share: file by file.
            for file in files:
                (target / file).parent.mkdir(parents=True, exist_ok=True)
                (target / file).symlink_to(SITE_PACKAGES / file)


def run(command: list[str], cwd: Path | None = None) -> str:
    """The standard output of a command that must succeed."""
    kept = {name: value for name, value in os.environ.items() if not re.match("PYTHON|VIRTUAL_ENV|RLCORE", name)}
    done = subprocess.run(command, cwd=cwd, env=kept, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout
