"""The pytest classes as a third party uses them: three lines, a test for each rule, nothing left out silently."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from rlcore.testing import suites
from rlcore.testing.kit.env import ENV_RULES
from rlcore.testing.kit.optimizer import OPTIMIZER_RULES
from rlcore.testing.kit.plugin import PLUGIN_RULES
from rlcore.testing.kit.policy import ACTOR_RULES, POLICY_GRAPH_RULES
from rlcore.testing.kit.runtime import RUNTIME_RULES

THREE_LINES = """
from rlcore.testing.environments import Count
from rlcore.testing.suites import EnvTests

class TestCount(EnvTests):
    env = Count
"""


def run(pytester: pytest.Pytester, source: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(source)
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-rA", *arguments)


def test_three_lines_make_a_test_of_each_rule(pytester: pytest.Pytester) -> None:
    result = run(pytester, THREE_LINES)
    outcomes = result.parseoutcomes()
    assert outcomes["passed"] + outcomes["skipped"] == len(ENV_RULES) + 1
    result.stdout.fnmatch_lines(["*TestCount::test_seeds_repeat*", "SKIPPED*it draws nothing as it was built*"])
    assert "EnvTests::" not in result.stdout.str()


def test_one_rule_can_be_run_alone(pytester: pytest.Pytester) -> None:
    run(pytester, THREE_LINES, "-k", "test_states_go_on_exactly").assert_outcomes(passed=1, deselected=len(ENV_RULES))


def test_a_broken_rule_fails_with_the_fix(pytester: pytest.Pytester) -> None:
    source = """
from support.broken_envs import FloatFrames
from rlcore.testing.suites import EnvTests

class TestIt(EnvTests):
    env = FloatFrames
"""
    result = run(pytester, source, "-k", "images")
    result.assert_outcomes(failed=1, deselected=len(ENV_RULES))
    result.stdout.fnmatch_lines(
        [
            "*frames_are_images: render() gave float64 of shape (4, 4, 3)",
            "*fix: give an array [[]height, width, 3[]] of uint8, or None",
        ]
    )
    assert "suites.py" not in result.stdout.str()


HEAD = """
import pytest
from support.broken_envs import FloatFrames
from rlcore.testing.suites import EnvTests
"""
IMAGES = "    def test_frames_are_images(self):\n        assert False"

#: ``(what is excused, what the class has beside, how many tests fail, how many were expected to, what is said)``
EXCUSES = [
    ("'frames_are_images': 'floats are drawn'", "", 0, 1, "Test0::test_frames_are_images*floats are drawn"),
    ("'closes_twice': 'it did not once'", "", 2, 0, "it is excused ('it did not once'), but holds: take it out of *"),
    ("'closes_twic': 'a typo'", "", 2, 0, "*'closes_twic' is excused, but there is no such rule; did you mean 'clos*"),
    ("'closes_twice': ''", "", 3, 0, "*rule 'closes_twice' is excused without a reason*"),
    (
        "",
        "    test_frames_are_images = None",
        1,
        0,
        "*test_frames_are_images was deleted; name 'frames_are_images' in *",
    ),
    (
        "",
        IMAGES.replace("assert False", "pass"),
        1,
        0,
        "*test_frames_are_images was overridden without pytest.mark.xfail*",
    ),
    (
        "",
        f"    @pytest.mark.xfail\n{IMAGES}",
        1,
        1,
        "*test_frames_are_images was overridden without pytest.mark.xfail*",
    ),
    ("", f"    @pytest.mark.xfail(reason='only floats')\n{IMAGES}", 0, 1, "Test7::test_frames_are_images*only floats"),
    (
        "'frames_are_images': 'floats'",
        "    def test_every_rule_is_tested(self):\n        pass",
        1,
        1,
        "*test_every_rule_is_tested was overridden",
    ),
]


def test_rules_are_left_out_with_a_reason_only(pytester: pytest.Pytester) -> None:
    source = HEAD
    for number, (excused, body, *_) in enumerate(EXCUSES):
        source += f"class Test{number}(EnvTests):\n    env = FloatFrames\n    excused = {{{excused}}}\n{body}\n"
    result = run(pytester, source, "-k", "images or closes or every_rule")
    summary = [line.partition(" ") for line in result.stdout.lines if "::" in line]
    for number, (_, _, failed, expected, said) in enumerate(EXCUSES):
        own = [outcome for outcome, _, line in summary if f"Test{number}::" in line]
        assert (own.count("FAILED"), own.count("XFAIL")) == (failed, expected), number
        result.stdout.fnmatch_lines_random([said if said[0] != "T" else f"XFAIL *{said}"])


def test_what_is_to_be_tested_has_to_be_named(pytester: pytest.Pytester) -> None:
    result = run(pytester, THREE_LINES.replace("    env = Count", "    pass"), "-k", "can_be_played")
    result.stdout.fnmatch_lines(["*UserError: TestCount: set 'env' to what is to be tested"])


def test_a_setting_that_is_misspelt_is_a_problem_and_what_is_ones_own_is_not(pytester: pytest.Pytester) -> None:
    body = "    env = Count\n    setings = {}\n    helper = 3"
    result = run(pytester, THREE_LINES.replace("    env = Count", body), "-k", "every_rule")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*'setings' is not read; did you mean 'settings'?"])
    assert "helper" not in result.stdout.str()


def test_a_function_can_be_named(pytester: pytest.Pytester) -> None:
    source = """
from rlcore.testing.environments import Count
from rlcore.testing.suites import EnvTests, RuntimeTests
from rlcore.runtime.inline import InlineRuntime

def make_count(num_envs, length):
    return Count(num_envs, length)

class TestCount(EnvTests):
    env = make_count
    settings = {"length": 2}
    num_envs = 2

class TestInline(RuntimeTests):
    runtime = lambda: InlineRuntime()
"""
    assert run(pytester, source).parseoutcomes().get("failed", 0) == 0


@pytest.mark.parametrize(
    ("suite", "rules"),
    [
        (suites.EnvTests, ENV_RULES),
        (suites.PolicyGraphTests, POLICY_GRAPH_RULES),
        (suites.ActorTests, ACTOR_RULES),
        (suites.OptimizerTests, OPTIMIZER_RULES),
        (suites.RuntimeTests, RUNTIME_RULES),
        (suites.PluginTests, PLUGIN_RULES),
    ],
)
def test_every_rule_has_a_test_with_its_name_and_demand(suite: Any, rules: Any) -> None:
    tests = {name for name in dir(suite) if name.startswith("test_")}
    assert tests == {f"test_{rule.__name__}" for rule in rules} | {suites.GUARD}
    for rule in rules:
        text = getattr(suite, f"test_{rule.__name__}").__doc__
        assert text.endswith(".") and "\n" not in text and len(text) > 20


def test_the_kit_needs_no_pytest() -> None:
    code = (
        "import sys, rlcore.testing, rlcore.testing.kit.target\n"
        "print([name for name in ('pytest', 'hypothesis', 'ray') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
