"""Who may import whom, and what `import rlcore` costs. Read from the sources and from a fresh interpreter."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FRAMEWORKS = {"torch", "tensorflow", "tf", "keras", "jax", "flax"}
#: Which plugin a framework belongs to.
HOME = {"torch": "rlcore-torch", "tensorflow": "rlcore-tf", "keras": "rlcore-tf"}
#: Loaded on use, never by `import rlcore`.
HEAVY = {"ray", "torch", "tensorflow", "keras", "jax", "matplotlib", "tensorboard", "pandas", "scipy", "pytest"}
#: Documented as one, released as two.
COMES_WITH = {"pydantic_core": "pydantic"}
#: The one file of the kernel that may: it tells users what to install.
NAMES_FRAMEWORKS = "known.py"


class Import(NamedTuple):
    """``module`` as written, ``name`` for ``from module import name``."""

    file: Path
    module: str
    name: str

    @property
    def top(self) -> str:
        return self.module.split(".")[0]

    def __str__(self) -> str:
        return f"{self.file}: {self.module} {self.name}"


def imports(folder: Path) -> Iterator[Import]:
    """Every import in the files of ``folder``, wherever in a file it stands."""
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                yield from (Import(file, alias.name, "") for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                yield from (Import(file, str(node.module), alias.name) for alias in node.names)


def words(file: Path) -> set[str]:
    """Lower-case words of names and strings, docstrings and comments left out."""
    tree = ast.parse(file.read_text())
    found: set[str] = set()
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.alias(name=text) | ast.arg(arg=text):
                found.add(text)
            case ast.FunctionDef(name=text) | ast.ClassDef(name=text) | ast.ImportFrom(module=str(text)):
                found.add(text)
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                found.add(text)
    return {word for text in found for word in "".join(c if c.isalnum() else " " for c in text.lower()).split()}


def test_import_of_the_kernel_loads_nothing_heavy_and_no_plugin() -> None:
    code = "import json, sys, rlcore; print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert "rlcore" in loaded
    assert not loaded & HEAVY
    assert not [name for name in loaded if name.startswith("rlcore_")]


def test_every_kernel_module_imports_without_frameworks_and_plugins(projects: Mapping[str, Any]) -> None:
    source = projects["rlcore"].source
    modules = [".".join(file.relative_to(source.parent).with_suffix("").parts) for file in source.rglob("*.py")]
    modules = sorted(name.removesuffix(".__init__") for name in modules if not name.endswith("__main__"))
    code = f"import importlib, json, sys\nfor name in {modules!r}: importlib.import_module(name)\n"
    code += "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert not loaded & (FRAMEWORKS | {"matplotlib", "tensorboard"})
    assert not [name for name in loaded if name.startswith("rlcore_")]


def test_kernel_imports_no_plugin_and_no_framework(projects: Mapping[str, Any]) -> None:
    wrong = [
        str(found)
        for found in imports(projects["rlcore"].source)
        if found.top in FRAMEWORKS or found.top.startswith("rlcore_")
    ]
    assert wrong == []


def test_plugins_use_only_what_others_export(project: Any) -> None:
    for found in imports(project.source):
        if found.top.startswith("rlcore") and found.top != project.module:
            assert not any(part.startswith("_") for part in [*found.module.split("."), found.name]), found
            assert found.top == "rlcore" or found.module == found.top, f"{found}: the insides of another plugin"


def test_every_import_is_declared(project: Any) -> None:
    """Directly: what only comes along with another requirement may be gone tomorrow."""
    extras = [line for lines in project.metadata.get("optional-dependencies", {}).values() for line in lines]
    declared = {canonicalize_name(line.name) for line in [*project.requirements(), *map(Requirement, extras)]}
    providers = importlib.metadata.packages_distributions()
    for found in imports(project.source):
        if found.top in sys.stdlib_module_names or found.top == project.module:
            continue
        if found.top.startswith("rlcore"):
            owners = {found.top.replace("_", "-")}
        else:
            owners = {COMES_WITH.get(name, canonicalize_name(name)) for name in providers[found.top]}
        assert owners & declared, f"{found}, of {owners}, is not among the requirements of {project.name}"


def test_frameworks_stay_in_their_plugins(project: Any) -> None:
    for found in imports(project.source):
        assert HOME.get(found.top, project.name) == project.name, found


@pytest.mark.parametrize("name", ["rlcore", "rlcore-sync", "rlcore-replay", "rlcore-gym"])
def test_kernel_recipes_and_optimizers_name_no_framework(name: str, projects: Mapping[str, Any]) -> None:
    wrong = {
        str(file): sorted(words(file) & FRAMEWORKS)
        for file in projects[name].source.rglob("*.py")
        if file.name != NAMES_FRAMEWORKS and words(file) & FRAMEWORKS
    }
    assert wrong == {}


def test_the_scan_sees_names_and_strings_but_not_prose(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text('"""Not a keras graph."""\n# jax\nimport torch.nn as nn\nNAME = f"tf.{nn}"\n')
    assert words(file) & FRAMEWORKS == {"torch", "tf"}
    assert [(found.top, found.module) for found in imports(tmp_path)] == [("torch", "torch.nn")]
