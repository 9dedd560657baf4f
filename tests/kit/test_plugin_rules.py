"""Each rule for plugins against packages that break it, what it says of them, and how parts ask to be tried."""

from __future__ import annotations

from typing import Any

import pytest

from rlcore.errors import InvalidPluginError, UnknownPluginError, UserError
from rlcore.testing.kit.plugin import PLUGIN_RULES, check_plugin, examine_package, examine_plugin
from rlcore.testing.kit.plugin.lab import PluginLab
from rlcore.testing.kit.report import ConformanceError
from rlcore.testing.kit.rules import examine
from rlcore.version_bounds import Bound, bounds_on, has_both_ends, holds

METADATA = {
    "Summary": "Parts for tests.",
    "Requires-Python": ">=3.11",
    "License-Expression": "MIT",
    "Requires-Dist": "rlcore<0.2,>=0.1",
}

MODULE = '''
from rlcore.algorithm import Algorithm
from rlcore.envs import EnvProvider, unknown_env
from rlcore.hooks import hookimpl
from rlcore.runtime.inline import InlineRuntime
from rlcore.testing.environments import Count
from rlcore.testing.linear import LinearPG


class Runtime(InlineRuntime):
    """Like inline."""


class Undocumented(InlineRuntime):
    pass


class Graph(LinearPG):
    """Like numpy.pg."""


class Provider(EnvProvider):
    """Counts."""

    examples = ("count",)

    def make(self, env_id, num_envs, settings):
        if env_id != "count":
            raise unknown_env("counting", env_id, ["count"])
        return Count(num_envs, **settings)


class AnyProvider(Provider):
    """Makes whatever is asked for."""

    def make(self, env_id, num_envs, settings):
        return Count(num_envs)


class OddProvider(Provider):
    """Raises what it likes."""

    def make(self, env_id, num_envs, settings):
        raise KeyError(env_id)


class VagueProvider(Provider):
    """Does not say what it does not have."""

    def make(self, env_id, num_envs, settings):
        raise unknown_env("counting", "that", [])


class PG(Algorithm):
    """Policy gradients."""

    policy_graph = "pg"
    optimizer = "simple"
    optimizers = {"simple": {"minibatches": 1}}


class Typo(PG):
    """Sets what the optimizer does not have."""

    optimizers = {"simple": {"minibatchs": 1}}


class Nameless(Algorithm):
    """Names no optimizer."""

    policy_graph = "pg"


class Listener:
    """Listens."""

    @hookimpl
    def iteration(self, row):
        pass


class Mishearing:
    """Listens to what there is not."""

    @hookimpl
    def iteraton(self, row):
        pass
'''

PARTS = {
    "rlcore.policy_graphs": {"plain.pg": "kit_parts:Graph"},
    "rlcore.envs": {"counting": "kit_parts:Provider"},
    "rlcore.optimizers": {"simple": "support.broken_optimizers:Simple"},
    "rlcore.algorithms": {"own_pg": "kit_parts:PG"},
    "rlcore.hooks": {"listener": "kit_parts:Listener"},
}


def parts(**changes: dict[str, str]) -> dict[str, dict[str, str]]:
    return {**PARTS, **{f"rlcore.{group}": names for group, names in changes.items()}}


#: ``(rule, what is installed otherwise, what the rule says)``
BROKEN: list[tuple[str, dict[str, Any], str]] = [
    ("its_metadata_is_complete", {"metadata": {**METADATA, "Summary": ""}}, "its metadata has no Summary"),
    (
        "its_metadata_is_complete",
        {"metadata": {name: value for name, value in METADATA.items() if name != "License-Expression"}},
        "its metadata has no License",
    ),
    (
        "it_asks_for_one_minor_of_the_kernel",
        {"metadata": {**METADATA, "Requires-Dist": "numpy"}},
        "it does not require rlcore",
    ),
    (
        "it_asks_for_one_minor_of_the_kernel",
        {"metadata": {**METADATA, "Requires-Dist": "rlcore>=0.1"}},
        "it requires rlcore>=0.1, which is open on one side",
    ),
    (
        "it_asks_for_one_minor_of_the_kernel",
        {"metadata": {**METADATA, "Requires-Dist": "rlcore (>=7,<8)"}},
        "it does not take rlcore 0.1.0, which is installed",
    ),
    ("it_offers_something", {"groups": {}}, "it offers nothing"),
    (
        "it_offers_something",
        {"groups": parts(optimizer={"simple": "support.broken_optimizers:Simple"})},
        "there is no group 'rlcore.optimizer'; did you mean 'rlcore.optimizers'?",
    ),
    (
        "its_names_can_be_asked_for",
        {"groups": parts(runtimes={"my runtime": "kit_parts:Runtime"})},
        "runtime 'my runtime' cannot be asked for by that name",
    ),
    (
        "its_names_can_be_asked_for",
        {"groups": parts(policy_graphs={"pg": "kit_parts:Graph"})},
        "policy graph 'pg' names no framework",
    ),
    (
        "its_names_can_be_asked_for",
        {"groups": parts(runtimes={"taken": "kit_parts:Runtime"})},
        "runtime 'taken' is also provided by other 1.0",
    ),
    (
        "its_parts_can_be_imported",
        {"groups": parts(runtimes={"gone": "kit_parts:Gone"})},
        "runtime 'gone' cannot be had: AttributeError: module 'kit_parts' has no attribute 'Gone'",
    ),
    (
        "its_parts_can_be_imported",
        {"groups": parts(runtimes={"graph": "kit_parts:Graph"})},
        "runtime 'graph' cannot be had: runtime 'graph' of parts 1.0 is the class kit_parts.Graph, not a subclass of",
    ),
    (
        "its_parts_say_what_they_are",
        {"groups": parts(runtimes={"silent": "kit_parts:Undocumented"})},
        "runtime 'silent' has no docstring",
    ),
    (
        "its_algorithms_fit_their_parts",
        {"groups": parts(algorithms={"typo": "kit_parts:Typo"})},
        "algorithm 'typo' with plain and simple: optimizer.minibatchs: unknown key, did you mean 'minibatches'?",
    ),
    (
        "its_algorithms_fit_their_parts",
        {"groups": parts(algorithms={"nameless": "kit_parts:Nameless"})},
        "algorithm 'nameless' names no optimizer",
    ),
    (
        "its_providers_refuse_unknown_ids",
        {"groups": parts(envs={"any": "kit_parts:AnyProvider"})},
        "provider 'any' made an environment of an id that it does not have",
    ),
    (
        "its_providers_refuse_unknown_ids",
        {"groups": parts(envs={"odd": "kit_parts:OddProvider"})},
        "provider 'odd' raised KeyError: 'No-Such-Environment-v0'",
    ),
    (
        "its_providers_refuse_unknown_ids",
        {"groups": parts(envs={"vague": "kit_parts:VagueProvider"})},
        "provider 'vague' refuses an id without naming it: environment provider 'counting' has no 'that'",
    ),
    (
        "its_hooks_listen_to_events",
        {"groups": parts(hooks={"mishearing": "kit_parts:Mishearing"})},
        "there is no event 'iteraton'; did you mean 'iteration'?",
    ),
]


def install_parts(install: Any, **changes: Any) -> None:
    install("rlcore", "0.1.0", groups={"rlcore.runtimes": {"inline": "rlcore.runtime.inline:InlineRuntime"}})
    install("parts", **{"groups": PARTS, "modules": {"kit_parts": MODULE}, "metadata": METADATA, **changes})


@pytest.mark.parametrize(
    ("rule", "changes", "message"), BROKEN, ids=[f"{rule}-{i}" for i, (rule, _, _) in enumerate(BROKEN)]
)
def test_a_broken_package_is_found_out(rule: str, changes: Any, message: str, install: Any) -> None:
    install_parts(install, **changes)
    install("other", groups={"rlcore.runtimes": {"taken": "kit_parts:Runtime"}})
    (broken_rule,) = (each for each in PLUGIN_RULES if each.__name__ == rule)
    report = examine("it", [broken_rule], [PluginLab("parts")])
    assert any(message in problem.what for problem in report.problems), str(report)
    assert all(problem.fix for problem in report.problems)


def test_every_rule_has_a_package_that_breaks_it() -> None:
    assert {rule for rule, _, _ in BROKEN} == {rule.__name__ for rule in PLUGIN_RULES}


def test_a_good_package_keeps_all_rules_and_so_do_its_parts(install: Any) -> None:
    install_parts(install, groups=parts(runtimes={"like_inline": "kit_parts:Runtime"}))
    reports = check_plugin("parts")
    assert [report.target for report in reports] == [
        "package parts",
        "policy graph plain.pg",
        "actor of plain.pg",
        "environment counting:count",
        "optimizer simple",
        "runtime like_inline",
    ]
    assert reports[0].untested == {}


def test_the_problems_of_all_parts_are_listed_at_once(install: Any) -> None:
    groups = {
        "rlcore.runtimes": {"like_inline": "kit_parts:Undocumented"},
        "rlcore.policy_graphs": {"broken.pg": "support.broken_graphs.building:TakesAnyCall"},
        "rlcore.envs": {"broken": "support.broken_envs:FloatFrames"},
    }
    install_parts(install, groups=groups, metadata={**METADATA, "Summary": ""})
    with pytest.raises(ConformanceError) as caught:
        check_plugin("parts", excused={"broken": {"frames_are_images": "a test of the kit"}})
    assert [(problem.rule) for problem in caught.value.problems] == [
        "its_metadata_is_complete",
        "its_parts_say_what_they_are",
        "its_parts_say_what_they_are",
        "its_parts_say_what_they_are",
        "unknown_utilities_are_refused",
    ]
    assert "package parts: 4 problems" in str(caught.value)
    assert "policy graph broken.pg: 1 problem" in str(caught.value)
    assert "runtime like_inline" not in str(caught.value)


def test_parts_that_cannot_be_imported_are_reported_once(install: Any) -> None:
    groups = {
        "rlcore.runtimes": {"gone": "kit_parts:Gone"},
        "rlcore.optimizers": {"simple": "support.broken_optimizers:Simple"},
    }
    install_parts(install, groups=groups)
    reports = examine_plugin("parts")
    assert [problem.rule for report in reports for problem in report.problems] == ["its_parts_can_be_imported"]


def test_excuses_have_to_be_about_something(install: Any) -> None:
    install_parts(install, groups={"rlcore.hooks": {"listener": "kit_parts:Listener"}})
    with pytest.raises(UserError, match="excused are rules of hearer, which parts does not have"):
        check_plugin("parts", excused={"hearer": {"it_starts": "no"}})
    with pytest.raises(UserError, match=r"'its_metadata' is excused, but there is no such rule; did you mean 'its_met"):
        check_plugin("parts", excused={"parts": {"its_metadata": "no"}})
    with pytest.raises(UserError, match="rule 'it_offers_something' is excused without a reason"):
        check_plugin("parts", excused={"parts": {"it_offers_something": " "}})


def test_the_kernel_itself_is_a_package_of_parts() -> None:
    report = examine_package(PluginLab("rlcore"))
    assert report.ok
    assert report.untested["it_asks_for_one_minor_of_the_kernel"] == "it is the kernel"


def test_a_package_that_is_not_installed_is_no_finding_but_an_error() -> None:
    with pytest.raises(UnknownPluginError, match=r"no package 'rlcore-snyc' is installed; did you mean 'rlcore-sync'"):
        check_plugin("rlcore-snyc")


WISHES = '''
from support.broken_optimizers import Simple
from rlcore.testing.constant import TableValue


class Wishing(Simple):
    """Trains another graph, and says so."""

    conformance = {"graph": "rlcore.testing:LinearPG", "steps": 12, "config": {"minibatches": 4}, "evaluators": 1}


class Mistaken(Simple):
    """Asks for what there is not."""

    conformance = {"step": 3}


class Recurrent(TableValue):
    """Asks for its recurrent side to be tried."""

    conformance = {"config": {"recurrent": True, "acts_by_actor": True}, "seed": 4}
'''


def test_parts_say_how_they_are_to_be_tried(install: Any) -> None:
    groups = {
        "rlcore.optimizers": {"wishing": "kit_wishes:Wishing"},
        "rlcore.policy_graphs": {"table.value": "kit_wishes:Recurrent"},
    }
    install_parts(install, groups=groups, modules={"kit_wishes": WISHES})
    reports = {report.target: report for report in examine_plugin("parts")}
    assert all(report.ok for report in reports.values())
    assert "states_go_in_and_come_out" not in reports["policy graph table.value"].untested
    assert reports["actor of table.value"].untested == {}


def test_a_wish_that_the_kit_does_not_know_is_an_error(install: Any) -> None:
    groups = {"rlcore.optimizers": {"mistaken": "kit_wishes:Mistaken"}}
    install_parts(install, groups=groups, modules={"kit_wishes": WISHES})
    with pytest.raises(InvalidPluginError, match=r"Mistaken.conformance has a key 'step'; did you mean 'steps'"):
        examine_plugin("parts")


@pytest.mark.parametrize(
    ("line", "bounds"),
    [
        ("rlcore<0.2,>=0.1", [("<", (0, 2)), (">=", (0, 1))]),
        ("RLCore[testing] (>= 0.1.3, != 0.1.5) ; python_version >= '3.11'", [(">=", (0, 1, 3)), ("!=", (0, 1, 5))]),
        ("rlcore~=0.1.2", [("~=", (0, 1, 2))]),
        ("rlcore", []),
        ("rlcore-sync>=0.1", None),
        ("rlcore>=0.1; extra == 'all'", None),
    ],
)
def test_requirements_are_read(line: str, bounds: Any) -> None:
    expected = None if bounds is None else [Bound(*bound) for bound in bounds]
    assert bounds_on("rlcore", ["numpy>=2", line]) == expected


@pytest.mark.parametrize(
    ("bounds", "version", "inside", "closed"),
    [
        ([(">=", (0, 1)), ("<", (0, 2))], "0.1.0", True, True),
        ([(">=", (0, 1)), ("<", (0, 2))], "0.2.0rc1", False, True),
        ([("~=", (0, 1, 2))], "0.1.9", True, True),
        ([("~=", (0, 1, 2))], "0.2.0", False, True),
        ([("~=", (0, 1))], "0.9", True, True),
        ([("==", (0, 1))], "0.1.0", True, True),
        ([(">", (0, 1)), ("!=", (0, 1, 5))], "0.1.5", False, False),
        ([("<=", (0, 1, 5))], "0.1.5", True, False),
    ],
)
def test_bounds_hold(bounds: Any, version: str, inside: bool, closed: bool) -> None:
    own = [Bound(*bound) for bound in bounds]
    assert holds(own, version) is inside
    assert has_both_ends(own) is closed
