"""One new plugin of each kind: whole, free of what linters mind, and its own tests pass."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from support.scaffolds import NAMES, build_wheels, run_with, unpack, write_one_of_each

from rlcore.registry import KINDS
from rlcore.scaffold import new_plugin
from rlcore.scaffold.writing import OUTLINES, fill

Site = tuple[Path, dict[str, Path]]

#: The optimizer's rules are tried on Ray as well where the packages are installed, in tests/packaging.
WITHOUT_RAY = """
from rlcore.testing.suites import OptimizerTests

OptimizerTests.runtimes = ("inline", "sim")
"""

pytestmark = pytest.mark.xdist_group("scaffold")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Where the wheels are unpacked, and ``{kind: its folder}``."""
    folder = tmp_path_factory.mktemp("scaffold")
    places, site = write_one_of_each(folder), folder / "site"
    unpack(build_wheels(places.values(), folder / "wheels"), site)
    return site, places


def test_every_kind_has_an_outline_and_templates() -> None:
    assert set(OUTLINES) == set(KINDS)


def test_words_are_filled_in_and_unknown_ones_are_errors() -> None:
    assert fill("{{ a }}: {b} {{c}}", {"a": "x"}) == "x: {b} {{c}}"
    with pytest.raises(KeyError):
        fill("{{ b }}", {"a": "x"})


@pytest.mark.parametrize("kind", list(KINDS))
def test_it_is_a_whole_package(kind: str, written: Site) -> None:
    name, place = NAMES[kind], written[1][kind]
    module = name.replace(".", "_")
    files = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}
    files = {file for file in files if "__pycache__" not in file}
    assert {"pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore"} <= files
    assert {f"src/{module}/__init__.py", f"src/{module}/py.typed", "tests/test_conformance.py"} <= files
    for file in files:
        text = (place / file).read_text()
        assert "{{" not in text and "MODULE" not in text, file
        assert text == "" or text.endswith("\n"), file
    project = tomllib.loads((place / "pyproject.toml").read_text())["project"]
    assert project["name"] == name
    ((group, parts),) = project["entry-points"].items()
    assert (group, list(parts)) == (KINDS[kind].group, [name])
    assert next(line for line in project["dependencies"] if line.startswith("rlcore>")) == "rlcore>=0.1,<0.2"
    for line in project["dependencies"]:
        wanted = Requirement(line)
        assert wanted.specifier.contains(importlib.metadata.version(wanted.name), prereleases=True), line


def test_a_framework_alone_has_its_first_graph(tmp_path: Path) -> None:
    place = new_plugin("policy_graph", "mine", tmp_path)
    project = tomllib.loads((place / "pyproject.toml").read_text())["project"]
    assert project["name"] == "mine"
    assert project["entry-points"] == {"rlcore.policy_graphs": {"mine.pg": "mine:Mine"}}
    assert "rlcore train pg --framework mine " in (place / "README.md").read_text()


def test_linters_find_nothing(written: Site) -> None:
    folder = written[0].parent
    done = run_with(written[0], "-m", "ruff", "check", "--no-cache", *map(str, written[1].values()), cwd=folder)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("kind", list(KINDS))
def test_its_own_tests_pass(kind: str, written: Site) -> None:
    site, places = written
    place = places[kind]
    (place / "tests/conftest.py").write_text(WITHOUT_RAY)
    done = run_with(site, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=place)
    assert done.returncode == 0, done.stdout
    passed = int(done.stdout.strip().splitlines()[-1].split()[0])
    assert passed >= 9


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("optimizer", "learner", "class LearnerOptimizer(PolicyOptimizer):"),
        ("runtime", "worker-handle", "class WorkerHandleRuntime(Runtime):"),
        ("hook", "none", "class NoneHook:"),
        ("algorithm", "exception", "class ExceptionRecipe(Algorithm):"),
        ("env", "package", "class PackageEnv(gymnasium.Env["),
        ("env", "Tall_tower", "class TallTower(gymnasium.Env["),
    ],
)
def test_no_class_hides_what_the_code_uses(kind: str, name: str, said: str, tmp_path: Path) -> None:
    place = new_plugin(kind, name, tmp_path)
    texts = [file.read_text() for file in place.glob("src/*/*.py")]
    assert any(said in text for text in texts)
    for file in place.rglob("*.py"):
        compile(file.read_text(), str(file), "exec")


def test_long_names_make_no_lines_too_long(tmp_path: Path) -> None:
    places = [new_plugin(kind, "x" * 40, tmp_path / kind) for kind in KINDS if not (tmp_path / kind).mkdir()]
    done = run_with(tmp_path, "-m", "ruff", "check", "--no-cache", *map(str, places), cwd=tmp_path)
    assert done.returncode == 0, done.stdout
