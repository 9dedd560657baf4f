"""What the distributions say about themselves, in their sources and in their wheels."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import rlcore

ONE_FOR_ALL = ("version", "license", "license-files", "requires-python", "authors", "readme")


def test_all_share_version_licence_and_python(project: Any, projects: Mapping[str, Any]) -> None:
    kernel = projects["rlcore"]
    for key in ONE_FOR_ALL:
        assert project.metadata[key] == kernel.metadata[key], key
    assert project.metadata["classifiers"] == kernel.metadata["classifiers"]
    assert (project.folder / "LICENSE").read_text() == (kernel.folder / "LICENSE").read_text()


def test_licence_is_apache_in_full(projects: Mapping[str, Any]) -> None:
    text = (projects["rlcore"].folder / "LICENSE").read_text()
    assert "Apache License\n" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert projects["rlcore"].metadata["license"] == "Apache-2.0"


def test_siblings_are_required_within_this_minor_version(project: Any, projects: Mapping[str, Any]) -> None:
    siblings = {line.name: str(line.specifier) for line in project.requirements() if line.name in projects}
    assert set(siblings.values()) <= {"<0.2,>=0.1"}
    assert project.name == "rlcore" or "rlcore" in siblings


def test_requirements_are_open_ranges(project: Any, projects: Mapping[str, Any]) -> None:
    for line in project.requirements():
        if line.name not in projects:
            assert [clause.operator for clause in line.specifier] == [">="], line


def test_constraints_pin_all_that_is_required(project: Any, projects: Mapping[str, Any]) -> None:
    text = (projects["rlcore"].folder / "constraints.txt").read_text()
    pins = dict(re.findall(r"^([a-z0-9-]+)==(\S+)$", text, re.MULTILINE))
    extras = [line for lines in project.metadata.get("optional-dependencies", {}).values() for line in lines]
    for line in [*project.requirements(), *map(Requirement, extras)]:
        if line.name not in projects:
            assert line.specifier.contains(pins[canonicalize_name(line.name)]), line


def test_wheel_holds_every_module_and_the_type_marker(project: Any, wheels: Mapping[str, Any]) -> None:
    packed = {name for name in wheels[project.name].names() if ".dist-info/" not in name}
    files = [file for file in project.source.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    assert packed == {file.relative_to(project.source.parent).as_posix() for file in files}
    assert f"{project.module}/py.typed" in packed
    assert f"{project.module}/__init__.py" in packed


def test_wheel_metadata(project: Any, wheels: Mapping[str, Any]) -> None:
    metadata = wheels[project.name].metadata()
    assert metadata["Version"] == project.metadata["version"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["License-File"] == "LICENSE"
    assert "Apache License" in wheels[project.name].read(".dist-info/licenses/LICENSE")
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert len(metadata.get_payload().strip()) > 200, "a README that says something"


def test_wheel_lists_the_entry_points(project: Any, wheels: Mapping[str, Any]) -> None:
    if project.entry_points():
        text = wheels[project.name].read(".dist-info/entry_points.txt")
        for (group, name), value in project.entry_points().items():
            assert f"[{group}]" in text
            assert f"{name} = {value}" in text


def test_plugins_keep_no_tool_settings_of_their_own(project: Any, projects: Mapping[str, Any]) -> None:
    tools = tomllib.loads((project.folder / "pyproject.toml").read_text())["tool"]
    if project is not projects["rlcore"]:
        assert set(tools) == {"hatch"}, "ruff, mypy and pytest are set once, at the root"


def test_the_kernel_knows_its_version(projects: Mapping[str, Any]) -> None:
    assert rlcore.__version__ == projects["rlcore"].metadata["version"]
