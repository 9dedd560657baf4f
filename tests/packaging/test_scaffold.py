"""One new plugin of each kind, built into a wheel, installed into a fresh environment, and tested there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.scaffolds import NAMES, build_wheels, write_one_of_each

Alone = Callable[..., Any]


@pytest.fixture(scope="module")
def installed(alone: Alone, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, dict[str, Path]]:
    """The environment, and ``{kind: folder}`` of the plugins that were written."""
    folder = tmp_path_factory.mktemp("new-plugins")
    places = write_one_of_each(folder)
    # No other test asks for these together: the new plugins are installed into an environment of their own.
    environment = alone("rlcore[testing]", "rlcore-gym[classic-control]", "rlcore-sync")
    wheels = build_wheels(places.values(), folder / "wheels")
    assert len(wheels) == len(NAMES)
    environment.install(*wheels)
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


def test_one_run_is_made_of_all_of_them(installed: tuple[Any, dict[str, Path]], tmp_path: Path) -> None:
    environment, _ = installed
    parts = ["--env", NAMES["env"], "--optimizer", NAMES["optimizer"], "--runtime", NAMES["runtime"]]
    parts += ["--set", f"policies.default.graph={NAMES['policy_graph']}", "--evaluators", "2"]
    options = ["--stop", "iteration=2", "--seed", "1", "--out", "runs/a"]
    result = json.loads(environment.rlcore("train", NAMES["algorithm"], *parts, *options, cwd=tmp_path))
    assert (result["iteration"], result["status"]) == (2, "stopped")
    assert (tmp_path / "runs/a/best.json").exists(), "an installed hook is told of the run"
    assert "runs/a" in environment.rlcore(NAMES["command"], cwd=tmp_path)
