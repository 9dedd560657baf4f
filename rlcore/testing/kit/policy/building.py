"""Rules about how a policy graph is built, and what it says of itself."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Graph, Text

from rlcore.errors import SpaceError, UserError
from rlcore.graph_spec import GraphSpec
from rlcore.policy_graph import GraphConfig, PolicyGraph, Unit
from rlcore.testing.kit.policy.lab import GraphLab
from rlcore.testing.kit.report import Fault
from rlcore.testing.kit.rules import describe
from rlcore.testing.kit.trees import difference


def it_can_be_built(lab: GraphLab) -> Iterator[Fault]:
    """The graph can be built for the spaces, with the settings that it was given or its defaults."""
    graph: Any = lab.template
    if not isinstance(graph, PolicyGraph):
        yield Fault(f"it is a {type(graph).__name__}", "derive it from rlcore.policy_graph.PolicyGraph")


def builds_repeat(lab: GraphLab) -> Iterator[Fault]:
    """Two builds of one spec are equal, number by number."""
    found = difference(lab.spec().build().get_state(), lab.template.get_state())
    if found:
        yield Fault(
            f"two graphs of one spec differ: {found}", "draw everything random from the generator rng, and nothing else"
        )


def specs_can_be_sent(lab: GraphLab) -> Iterator[Fault]:
    """A spec can be pickled, and builds the same graph elsewhere."""
    try:
        sent = pickle.loads(pickle.dumps(lab.spec()))
    except Exception as error:
        yield Fault(
            f"its spec cannot be pickled: {describe(error)}",
            "define the class and its Config at the top of a module, with settings that can be pickled",
        )
        return
    found = difference(sent.build().get_state(), lab.template.get_state())
    if found:
        yield Fault(
            f"a graph of a spec that was sent differs: {found}", "let nothing but the spec decide what is built"
        )


def unknown_settings_are_refused(lab: GraphLab) -> Iterator[Fault]:
    """Config is a GraphConfig, and has no place for a setting that it does not know."""
    config: Any = lab.graph_class.Config
    if not (isinstance(config, type) and issubclass(config, GraphConfig)):
        yield Fault(f"Config is {config!r}", "derive it from rlcore.policy_graph.GraphConfig")
        return
    try:
        config(**{**lab.config, "no_such_setting": 1})
    except ValueError:
        return
    yield Fault(
        "Config takes a setting 'no_such_setting'", "keep extra='forbid' of GraphConfig, so that typos are found"
    )


def unknown_devices_are_refused(lab: GraphLab) -> Iterator[Fault]:
    """A device that is not there is a UserError that names it."""
    assert lab.template
    error = _error(lambda: lab.spec().build(("nowhere:7",)))
    if not isinstance(error, UserError) or "nowhere:7" not in str(error):
        yield Fault(
            f"the device 'nowhere:7' {_outcome(error)}",
            "look devices up when the graph is built, and raise UserError with the name of one that is not there",
        )


def spaces_it_cannot_handle_are_refused_by_name(lab: GraphLab) -> Iterator[Fault]:
    """A space that it cannot see or act in is a SpaceError that names it, when the graph is built."""
    assert lab.template
    cases: Mapping[str, tuple[gymnasium.Space[Any], gymnasium.Space[Any]]] = {
        "Text": (lab.observation_space, Text(4)),
        "Graph": (Graph(Box(0.0, 1.0, (2,)), None), lab.action_space),
    }
    for name, spaces in cases.items():
        what = "act in" if spaces[0] is lab.observation_space else "see"
        spec = lab.spec()
        own = GraphSpec(lab.graph_class, *spaces, spec.config, spec.seed, spec.model)
        error = _error(own.build)
        if not isinstance(error, SpaceError) or name not in str(error):
            yield Fault(
                f"a {name} space to {what} {_outcome(error)}",
                "raise SpaceError with the space in its message from the constructor",
            )


def it_says_what_it_needs(lab: GraphLab) -> Iterator[Fault]:
    """lookahead is a number of rows, minibatch_unit a Unit, utilities() names functions."""
    graph: Any = lab.template
    if not isinstance(graph.lookahead, int) or graph.lookahead < 0:
        yield Fault(f"lookahead is {graph.lookahead!r}", "give the number of rows that rho needs beyond the end, or 0")
    if not isinstance(graph.minibatch_unit, Unit):
        yield Fault(f"minibatch_unit is {graph.minibatch_unit!r}", "give rlcore.policy_graph.ROW or PIECE")
    utilities = graph.utilities()
    if not isinstance(utilities, Mapping) or not all(callable(function) for function in utilities.values()):
        yield Fault(f"utilities() gave {utilities!r}", "give {name: function}")


def unknown_utilities_are_refused(lab: GraphLab) -> Iterator[Fault]:
    """call() of a utility that there is not is a UserError that names it."""
    error = _error(lambda: lab.build().call("no_such_utility"))
    if not isinstance(error, UserError) or "no_such_utility" not in str(error):
        yield Fault(
            f"call('no_such_utility') {_outcome(error)}",
            "name functions in utilities() and leave call() to the base class",
        )


def no_generator_but_its_own_is_used(lab: GraphLab) -> Iterator[Fault]:
    """Building, acting and learning leave numpy's global generator alone."""
    before: Any = np.random.get_state()
    graph = lab.spec().build()
    lab.act(graph)
    graph.learn(lab.batch())
    after: Any = np.random.get_state()
    if difference(list(after[1:]), list(before[1:])):
        yield Fault(
            "numpy's global generator was used",
            "draw from the generator that is given: at construction, and in act()",
        )


def _error(call: Callable[[], Any]) -> Exception | None:
    try:
        call()
    except Exception as error:
        return error
    return None


def _outcome(error: Exception | None) -> str:
    return "was taken without a word" if error is None else f"raised {describe(error)}"
