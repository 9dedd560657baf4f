"""One new plugin of each kind, built into a wheel, installed into a fresh environment, and tested there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.scaffolds import NAMES, write_one_of_each

from .conftest import run

Alone = Callable[..., Any]


@pytest.fixture(scope="module")
def installed(alone: Alone, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, dict[str, Path]]:
    """The environment, and ``{kind: folder}`` of the plugins that were written."""
    folder = tmp_path_factory.mktemp("new-plugins")
    places = write_one_of_each(folder)
    # No other test asks for these together: the new plugins are installed into an environment of their own.
    environment = alone("rlcore[testing]", "rlcore-gym[classic-control]", "rlcore-sync")
    pip = [sys.executable, "-m", "pip"]
    offline = ["--quiet", "--no-index", "--no-deps"]
    sources = map(str, places.values())
    run([*pip, "wheel", *offline, "--no-build-isolation", "--wheel-dir", str(folder / "wheels"), *sources])
    wheels = sorted(map(str, (folder / "wheels").glob("*.whl")))
    assert len(wheels) == len(NAMES)
    run([*pip, "--python", str(environment.folder / "bin/python"), "install", *offline, "--no-compile", *wheels])
    return environment, places


def test_all_are_listed_by_their_names(installed: tuple[Any, dict[str, Path]]) -> None:
    listed = installed[0].rlcore("plugins").splitlines()
    for kind, name in NAMES.items():
        assert f"{kind}\t{name}\t{name}\t0.1.0\tok" in listed
    assert NAMES["command"] in installed[0].rlcore("--help")


@pytest.mark.parametrize("kind", list(NAMES))
def test_its_own_tests_pass_where_it_is_installed(kind: str, installed: tuple[Any, dict[str, Path]]) -> None:
    environment, places = installed
    arguments = ["-q", "-p", "no:cacheprovider", "--rootdir", str(places[kind]), str(places[kind] / "tests")]
    passed = environment.python(f"import pytest; raise SystemExit(pytest.main({arguments!r}))", cwd=places[kind])
    assert " failed" not in passed and " passed" in passed


def test_two_of_them_train_by_their_names(installed: tuple[Any, dict[str, Path]], tmp_path: Path) -> None:
    options = ["--framework", "new", "--optimizer", "new_optimizer", "--env", "new_env", "--stop", "iteration=2"]
    installed[0].rlcore("train", "pg", "--set", "framework=numpy", *options[2:], "--out", "run", cwd=tmp_path)
    assert (tmp_path / "run/best.json").exists(), "the installed hook is told of the run"
    assert "run" in installed[0].rlcore("new_command", ".", cwd=tmp_path)
