"""``rlcore check``: what may be named, what it prints, and its exit codes."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from rlcore.cli import main
from rlcore.testing.kit.policy import ACTOR_RULES, POLICY_GRAPH_RULES
from rlcore.testing.kit.target import examine_target

GRAPH, ACTOR = (f"{len(rules)} rules hold" for rules in (POLICY_GRAPH_RULES, ACTOR_RULES))


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    with pytest.raises(SystemExit) as ended:
        main(["check", *arguments])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.mark.parametrize(
    ("target", "lines"),
    [
        ("inline", ["runtime inline: 25 rules hold"]),
        ("numpy.pg", [f"policy graph numpy.pg: {GRAPH}", f"actor of numpy.pg: {ACTOR}"]),
        ("numpy.pg@rlcore", [f"policy graph numpy.pg: {GRAPH}", f"actor of numpy.pg: {ACTOR}"]),
        ("rlcore.testing.environments:Contexts", ["environment rlcore.testing.environments:Contexts: 33 rules hold"]),
        ("rlcore.runtime.inline:InlineRuntime", ["runtime rlcore.runtime.inline:InlineRuntime: 25 rules hold"]),
        pytest.param("multi_gpu", ["optimizer multi_gpu: 18 rules hold"], marks=pytest.mark.xdist_group("ray")),
        ("CartPole-v1", ["environment CartPole-v1: 31 rules hold"]),
    ],
)
def test_parts_are_found_by_name_path_and_id(target: str, lines: list[str], capsys: Any) -> None:
    code, out, err = check(capsys, target)
    assert code == 0 and err == ""
    for line in lines:
        assert line in out.splitlines()


def test_a_whole_package_is_checked(install: Any, capsys: Any) -> None:
    metadata = {
        "Summary": "Parts.",
        "License": "MIT",
        "Requires-Python": ">=3.11",
        "Requires-Dist": "rlcore>=0.1,<0.2",
    }
    groups = {"rlcore.envs": {"contexts": "rlcore.testing.environments:Contexts"}}
    install("rlcore-parts", groups=groups, metadata=metadata)
    code, out, _ = check(capsys, "rlcore-parts")
    assert code == 0
    assert [line for line in out.splitlines() if not line.startswith(" ")] == [
        "package rlcore-parts: 7 rules hold",
        "environment contexts: 33 rules hold",
    ]


def test_problems_are_listed_on_stdout_and_the_code_is_1(capsys: Any) -> None:
    code, out, err = check(capsys, "support.broken_envs:FloatFrames")
    assert code == 1 and err == ""
    assert out.splitlines()[:3] == [
        "environment support.broken_envs:FloatFrames: 1 problem",
        "  frames_are_images: render() gave float64 of shape (4, 4, 3)",
        "      fix: give an array [height, width, 3] of uint8, or None",
    ]


def test_what_is_none_of_them_is_a_user_error(capsys: Any) -> None:
    code, out, err = check(capsys, "multi_gpus")
    assert code == 2 and out == ""
    assert check(capsys, "rlcore.testing.environments:Dice")[0] == 2
    assert err.splitlines()[:2] == [
        "error: there is no policy graph, optimizer, runtime or package 'multi_gpus'; did you mean 'multi_gpu'?",
        "as an environment: environment provider 'gym' has no 'multi_gpus'",
    ]


def test_a_recipe_of_a_script_is_refused(capsys: Any) -> None:
    code, _, err = check(capsys, "rlcore.algorithm:Algorithm")
    assert code == 2
    assert "is a recipe, which is checked by its name or with its package" in err


def test_the_overview_names_it_without_importing_it() -> None:
    code = "import sys; from rlcore.cli import main\nsys.argv = ['rlcore', '--help']\ntry:\n    main()\nfinally:\n"
    code += "    print('rlcore.testing' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.search(r"check +Check that a part or a package keeps its contract\.", done.stdout)
    assert done.stdout.rstrip().endswith("False")


def test_parts_of_one_name_are_all_checked(install: Any) -> None:
    install(
        "both",
        groups={
            "rlcore.envs": {"twin": "rlcore.testing.environments:Contexts"},
            "rlcore.runtimes": {"twin": "rlcore.runtime.inline:InlineRuntime"},
        },
    )
    assert [report.target for report in examine_target("twin")] == ["environment twin", "runtime twin"]


def test_a_recipe_and_a_hook_are_checked_by_name(install: Any) -> None:
    listener = """
        from rlcore.algorithm import Algorithm
        from rlcore.hooks import hookimpl

        class Own(Algorithm):
            '''A recipe.'''
            policy_graph, optimizer = "pg", "simple"

        class Listener:
            '''A hook.'''
            @hookimpl
            def run_end(self, statu):
                pass
    """
    groups = {
        "rlcore.algorithms": {"own": "kit_recipe:Own"},
        "rlcore.hooks": {"listener": "kit_recipe:Listener"},
        "rlcore.optimizers": {"simple": "support.broken_optimizers:Simple"},
        "rlcore.policy_graphs": {"plain.pg": "rlcore.testing:LinearPG"},
        "rlcore.runtimes": {"inline": "rlcore.runtime.inline:InlineRuntime"},
    }
    install("recipes", groups=groups, modules={"kit_recipe": listener})
    (report,) = examine_target("own")
    assert str(report) == "algorithm own: 1 rule holds"
    (report,) = examine_target("listener")
    assert "event 'run_end' has no argument 'statu'; did you mean 'status'?" in report.problems[0].what
