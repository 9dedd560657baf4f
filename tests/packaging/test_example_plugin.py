"""The third party's plugin, installed from its wheel: its parts are found by name, and nothing else was changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

Alone = Callable[..., Any]


@pytest.fixture
def environment(alone: Alone) -> Any:
    """The example and the recipes; no framework."""
    return alone("rlcore-example-plugin", "rlcore-sync")


def test_its_parts_are_listed_with_their_package(environment: Any) -> None:
    listed = environment.rlcore("plugins")
    assert "optimizer\taccumulate\trlcore-example-plugin\t0.1.0\tok" in listed
    assert "policy_graph\tfeatures.pg\trlcore-example-plugin\t0.1.0\tok" in listed


def test_it_trains_by_name_from_yaml(environment: Any, projects: Mapping[str, Any], tmp_path: Path) -> None:
    file = projects["rlcore-example-plugin"].folder / "cartpole.yaml"
    result = json.loads(environment.rlcore("train", str(file), "--out", "run", cwd=tmp_path))
    assert result["stop_reason"] == "episode_return_mean=150"
    assert result["env_steps"] < 100_000
    evaluated = json.loads(environment.rlcore("evaluate", "run", "--episodes", "10", cwd=tmp_path))
    assert evaluated["episode_return_mean"] > 150.0


def test_it_resumes_exactly(environment: Any, projects: Mapping[str, Any], tmp_path: Path) -> None:
    file = str(projects["rlcore-example-plugin"].folder / "cartpole.yaml")
    whole = environment.rlcore("train", file, "--stop", "iteration=4", "--out", "whole", cwd=tmp_path)
    environment.rlcore("train", file, "--stop", "iteration=2", "--out", "half", cwd=tmp_path)
    resumed = environment.rlcore("resume", "half", "--stop", "iteration=4", cwd=tmp_path)
    assert json.loads(whole)["weights_sha256"] == json.loads(resumed)["weights_sha256"]


def test_it_passes_the_conformance_kit(alone: Alone, projects: Mapping[str, Any]) -> None:
    environment = alone("rlcore[testing]", "rlcore-example-plugin", "rlcore-sync")
    reports = environment.rlcore("check", "rlcore-example-plugin")
    titles = [line for line in reports.splitlines() if not line.startswith(" ")]
    assert [title.partition(":")[0] for title in titles] == [
        "package rlcore-example-plugin",
        "policy graph features.pg",
        "actor of features.pg",
        "optimizer accumulate",
    ]
    tests = str(projects["rlcore-example-plugin"].folder / "tests")
    passed = environment.python(
        f"import pytest; raise SystemExit(pytest.main(['-q', '-p', 'no:cacheprovider', {tests!r}]))"
    )
    assert " failed" not in passed and " passed" in passed


def test_its_page_shows_the_file(projects: Mapping[str, Any]) -> None:
    folder = projects["rlcore-example-plugin"].folder
    assert (folder / "cartpole.yaml").read_text() in (folder / "README.md").read_text()


def test_every_snippet_of_its_page_runs(environment: Any, projects: Mapping[str, Any], tmp_path: Path) -> None:
    project = projects["rlcore-example-plugin"]
    runner = projects["rlcore"].folder / "tests/docs/run_page.py"
    environment.script(runner, str(project.folder / "README.md"), cwd=tmp_path)
