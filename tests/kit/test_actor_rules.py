"""Each rule for actors against actors that break it, and what it says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from support import broken_actors as broken
from support.broken_actors import graph_with
from support.needy_actor import NeedsAPackage

from rlcore.testing.constant import TableValue
from rlcore.testing.kit.policy import ACTOR_RULES, check_actor, examine_actor
from rlcore.testing.kit.policy.cases import drawn
from rlcore.testing.kit.policy.lab import GraphLab
from rlcore.testing.kit.rules import examine

OBS = Box(-2.0, 2.0, (5,), np.float32)
DISCRETE = Discrete(3, start=1)

#: ``(rule, graph, what the rule says)``
BROKEN: list[tuple[str, Any, str]] = [
    ("it_is_an_actor", graph_with(broken.NoUtilities), "it lacks call"),
    ("it_is_an_actor", graph_with(broken.LooksAhead), "its lookahead is 3, the graph's 0"),
    ("it_is_an_actor", graph_with(broken.BeginsElsewhere), "its initial_state() is another than the graph's"),
    ("it_acts_as_its_graph", graph_with(broken.Slanted), "without exploring it acts in another way than its graph"),
    ("it_acts_as_its_graph", graph_with(broken.NeverExplores), "exploring it acts in another way than its graph"),
    (
        "it_acts_as_its_graph_after_updates",
        graph_with(broken.KeepsItsBias),
        "after three updates it acts in another way than its graph: ",
    ),
    ("it_is_apart_from_its_graph", broken.LiveGraph, "it changed while its graph learnt: "),
    (
        "it_is_apart_from_its_graph",
        graph_with(broken.SharesWeights),
        "it changed with arrays that it was given: weights/policy.out.",
    ),
    (
        "it_acts_in_a_fresh_process_without_a_framework",
        graph_with(broken.CannotBePickled),
        "in a new process it cannot act: it cannot be pickled: TypeError: it stays here",
    ),
    (
        "it_acts_in_a_fresh_process_without_a_framework",
        graph_with(broken.FailsElsewhere),
        "in a new process it cannot act: RuntimeError: where am I?",
    ),
    (
        "it_acts_in_a_fresh_process_without_a_framework",
        graph_with(NeedsAPackage),
        "unpickling it and acting imports hypothesis",
    ),
    ("it_postprocesses_as_its_graph", graph_with(broken.OtherRho), "it postprocesses in another way than its graph"),
    ("it_changes_nothing", graph_with(broken.WritesObs), "act() changed its argument obs: [0, 0] is"),
    ("it_changes_nothing", graph_with(broken.Remembers), "act() remembers what it was called with: 2/calls: [0] is 2"),
    ("wrong_weights_are_refused", graph_with(broken.TakesAnyShape), "another shape was taken without a word"),
    ("wrong_weights_are_refused", graph_with(broken.RefusesVaguely), "another shape is refused without saying which"),
    ("wrong_weights_are_refused", graph_with(broken.RefusesOddly), "another shape raised ValueError: operands could"),
    (
        "wrong_weights_are_refused",
        graph_with(broken.RefusesHalfWay),
        "weights were refused, and some were set: weights/policy.out.bias",
    ),
    ("states_go_round", graph_with(broken.ObjectState), "get_state() cannot be stored: '/actor' is a "),
    ("states_go_round", graph_with(broken.NoWeightsState), "get_state() has no 'weights'"),
    ("states_go_round", broken.ForgetfulGraph, "an actor with its state acts in another way: extras/noise"),
    ("unknown_utilities_are_refused", graph_with(broken.TakesAnyCall), "call('no_such_utility') was taken without"),
]


@pytest.mark.parametrize(
    ("rule", "graph", "message"), BROKEN, ids=[f"{rule}-{graph.__name__}" for rule, graph, _ in BROKEN]
)
def test_a_broken_actor_is_found_out(rule: str, graph: Any, message: str) -> None:
    (broken_rule,) = (each for each in ACTOR_RULES if each.__name__ == rule)
    report = examine("it", [broken_rule], [GraphLab(graph, drawn(OBS, DISCRETE))])
    assert any(message in problem.what for problem in report.problems), str(report)
    assert all(problem.fix for problem in report.problems)


def test_every_rule_has_an_actor_that_breaks_it() -> None:
    assert {rule for rule, _, _ in BROKEN} == {rule.__name__ for rule in ACTOR_RULES}


def test_what_is_lost_on_the_way_is_found_out() -> None:
    graph = type("Forgetful", (broken.MovedAtStart,), {"actor_class": broken.ForgetsElsewhere})
    report = examine_actor([GraphLab(graph, drawn(OBS, DISCRETE))])
    assert [problem.rule for problem in report.problems] == ["it_acts_in_a_fresh_process_without_a_framework"]
    assert "in a new process it acts in another way: " in report.problems[0].what


def test_our_own_actors_keep_all_rules() -> None:
    assert check_actor("numpy.pg").untested == {}
    assert check_actor(TableValue, {"acts_by_actor": True}).untested == {}


def test_a_recurrent_actor_keeps_all_rules() -> None:
    assert check_actor(TableValue, {"acts_by_actor": True, "recurrent": True}).ok


def test_a_graph_without_an_actor_is_not_tested() -> None:
    report = check_actor(TableValue)
    assert set(report.untested.values()) == {"actor() gives None: the framework itself acts"}
    assert len(report.untested) == len(ACTOR_RULES)
    assert str(report).count("actor() gives None") == 1


def test_rho_may_be_left_to_the_learner() -> None:
    report = check_actor(broken.RhoAtTheLearner)
    assert report.untested == {"it_postprocesses_as_its_graph": "its postprocess is None: rho runs at the learner"}
