"""Each distribution installed from its wheel, alone with what it declares, and used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Alone = Callable[..., Any]


def test_imports_and_loads_its_entry_points(project: Any, alone: Alone) -> None:
    names = sorted(project.entry_points())
    assert names, "every distribution provides something"
    code = f"""
import importlib.metadata, {project.module}
for group, name in {names!r}:
    (found,) = importlib.metadata.entry_points(group=group, name=name)
    print(found.load().__name__)
"""
    assert len(alone(project.name).python(code).split()) == len(names)


def test_it_is_the_wheel_that_is_imported(project: Any, alone: Alone) -> None:
    environment = alone(project.name)
    file = environment.python(f"import {project.module}; print({project.module}.__file__)").strip()
    assert Path(file).is_relative_to(environment.folder)


def test_every_module_imports(project: Any, alone: Alone) -> None:
    """Whatever is packed works with what is declared; only the kit for test authors asks for its extra."""
    code = f"""
import importlib, pkgutil, {project.module}
for found in pkgutil.walk_packages({project.module}.__path__, "{project.module}."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
"""
    alone(project.name).python(code)


def test_an_undeclared_package_is_not_there(alone: Alone) -> None:
    names = ["torch", "matplotlib", "rlcore_gym"]
    code = f"import importlib.util as find; print([name for name in {names} if find.find_spec(name)])"
    assert alone("rlcore").python(code).strip() == "[]"
    assert alone("rlcore-sync").python(code).strip() == "['rlcore_gym']"
