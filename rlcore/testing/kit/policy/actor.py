"""Rules about actors, the framework-free twins of policy graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rlcore.errors import CheckpointError, UserError
from rlcore.policy_graph import Actor, Progress
from rlcore.testing.kit.policy.acting import act_difference
from rlcore.testing.kit.policy.fresh import CannotAct, act_elsewhere, foreign_packages
from rlcore.testing.kit.policy.lab import GraphLab, generator, rows_of
from rlcore.testing.kit.report import Fault, Untested
from rlcore.testing.kit.rules import describe
from rlcore.testing.kit.trees import array_leaves, batch_of, batch_tree, copied, difference, read_only, stored

_TOLERANCE = 1e-5
_LATER = Progress(env_steps=50_000, learnt_rows=1000, updates=10, stats={"loss": 0.1})


def it_is_an_actor(lab: GraphLab) -> Iterator[Fault]:
    """It has all that rlcore.policy_graph.Actor names, and the graph's lookahead and initial state."""
    graph = lab.template
    actor: Any = lab.actor(graph)
    lacking = [name for name in _members() if not hasattr(actor, name)]
    if lacking:
        yield Fault(f"it lacks {', '.join(lacking)}", "write everything that rlcore.policy_graph.Actor lists")
        return
    if actor.lookahead != graph.lookahead:
        yield Fault(f"its lookahead is {actor.lookahead}, the graph's {graph.lookahead}", "give both the same")
    found = difference(list(actor.initial_state(3)), list(graph.initial_state(3)))
    if found:
        yield Fault(f"its initial_state() is another than the graph's: {found}", "let both begin alike")


def it_acts_as_its_graph(lab: GraphLab) -> Iterator[Fault]:
    """With the same arguments it gives the graph's actions, states and extras, to 1e-5."""
    graph = lab.template
    actor = lab.actor(graph)
    for explore in (True, False):
        have, expected = (lab.act(policy, 32, explore=explore) for policy in (actor, graph))
        found = act_difference(have, expected, _TOLERANCE)
        if found:
            how = "exploring" if explore else "without exploring"
            yield Fault(
                f"{how} it acts in another way than its graph: {found}",
                "compute the same in numpy, and draw with the same rlcore.acting distribution",
            )


def it_acts_as_its_graph_after_updates(lab: GraphLab) -> Iterator[Fault]:
    """Given the graph's acting weights and its progress it acts as the graph does by then."""
    graph = lab.build()
    actor = lab.actor(graph)
    for units in lab.minibatches():
        graph.learn(lab.batch(), units)
    graph.on_progress(_LATER)
    actor.set_weights(read_only(graph.get_weights(graph.acting)))
    actor.on_progress(_LATER)
    found = act_difference(lab.act(actor, 32), lab.act(graph, 32), _TOLERANCE)
    if found:
        yield Fault(
            f"after three updates it acts in another way than its graph: {found}",
            "take over every weight in set_weights(), and follow the same schedules in on_progress()",
        )


def it_is_apart_from_its_graph(lab: GraphLab) -> Iterator[Fault]:
    """It does not change while its graph learns, until it is told; nor with arrays that it was given."""
    graph = lab.build()
    actor = lab.actor(graph)
    before = lab.act(actor)
    before = before._replace(actions=copied(before.actions), extras=copied(dict(before.extras)))
    for units in lab.minibatches():
        graph.learn(lab.batch(), units)
    found = act_difference(lab.act(actor), before)
    if found:
        yield Fault(f"it changed while its graph learnt: {found}", "copy the weights when the actor is made")
    given = copied(graph.get_weights(graph.acting))
    actor.set_weights(given)
    kept = copied(actor.get_state())
    for array in given.values():
        array[...] = array + 1
    found = difference(actor.get_state(), kept)
    if found:
        yield Fault(f"it changed with arrays that it was given: {found}", "copy arrays in set_weights()")


def it_acts_in_a_fresh_process_without_a_framework(lab: GraphLab) -> Iterator[Fault]:
    """Pickled to a new process it acts as here, and imports nothing there but what the kernel needs."""
    actor = lab.actor(lab.template)
    arguments = {"obs": lab.obs(8), "state": lab.state(actor, 8), "rows": rows_of(8), "rng": generator(7)}
    try:
        elsewhere = act_elsewhere(actor, copied(arguments))
    except CannotAct as error:
        yield Fault(
            f"in a new process it cannot act: {error}",
            "let nothing in it refer to what a new process lacks: define its class in a module, hold plain data",
        )
        return
    here = lab.act(actor, 8)
    expected = {"actions": here.actions, "state": list(here.state), "extras": dict(here.extras)}
    found = difference(elsewhere.output, expected, _TOLERANCE)
    if found:
        yield Fault(f"in a new process it acts in another way: {found}", "put all that acting needs into the pickle")
    foreign = foreign_packages(actor, elsewhere.modules)
    if foreign:
        yield Fault(
            f"unpickling it and acting imports {', '.join(foreign)}",
            "put its class and everything it refers to into modules that import numpy and rlcore only",
        )


def it_postprocesses_as_its_graph(lab: GraphLab) -> Iterator[Fault]:
    """postprocess is None, or gives what the graph's does, to 1e-5, and changes nothing."""
    graph = lab.template
    actor = lab.actor(graph)
    rho = actor.postprocess
    if rho is None:
        raise Untested("its postprocess is None: rho runs at the learner")
    have = batch_tree(rho(batch_of(read_only(lab.raw)), None))
    found = difference(have, batch_tree(graph.postprocess(lab.raw_copy())), _TOLERANCE)
    if found:
        yield Fault(
            f"it postprocesses in another way than its graph: {found}",
            "compute the same values, and use the same functions of rlcore.returns with the same settings",
        )


def it_changes_nothing(lab: GraphLab) -> Iterator[Fault]:
    """act() changes neither its arguments nor the actor, takes arrays that are read-only, and repeats."""
    actor = lab.actor(lab.template)
    obs, state = lab.obs(8), lab.state(actor, 8)
    given = {"obs": obs, "state": list(state)}
    kept, before = copied(given), copied(actor.get_state())
    first = copied(tuple(actor.act(obs, state, rows=rows_of(8), rng=generator(1))))
    found = difference(array_leaves(given), array_leaves(kept))
    if found:
        yield Fault(f"act() changed its argument {found}", "compute in arrays of its own")
    locked = read_only(kept)
    again = actor.act(locked["obs"], tuple(locked["state"]), rows=rows_of(8), rng=generator(1))
    found = difference(list(again), list(first)) or difference(actor.get_state(), before)
    if found:
        yield Fault(f"act() remembers what it was called with: {found}", "keep nothing of a call")


def wrong_weights_are_refused(lab: GraphLab) -> Iterator[Fault]:
    """A weight of another shape is a UserError that names it, and nothing has changed then."""
    actor = lab.actor(lab.template)
    before = copied(actor.get_state())
    name = sorted(before["weights"])[-1]
    given = {own: array + np.asarray(1, array.dtype) for own, array in copied(before["weights"]).items()}
    given[name] = np.zeros((*given[name].shape, 2), given[name].dtype)
    try:
        actor.set_weights(given)
    except UserError as error:
        if name not in str(error):
            yield Fault(f"another shape is refused without saying which: {error}", f"name the weight, '{name}' here")
    except Exception as error:
        yield Fault(f"another shape raised {describe(error)}", "check with rlcore.policy_graph.check_weights")
    else:
        yield Fault("another shape was taken without a word", "check with rlcore.policy_graph.check_weights")
    found = difference(actor.get_state(), before)
    if found:
        yield Fault(f"weights were refused, and some were set: {found}", "check before anything is set")


def states_go_round(lab: GraphLab) -> Iterator[Fault]:
    """Its state, stored, makes another actor act alike."""
    graph = lab.build()
    one, two = lab.actor(graph), lab.actor(lab.build(1))
    one.on_progress(_LATER)
    try:
        state = stored(one.get_state())
    except CheckpointError as error:
        yield Fault(f"get_state() cannot be stored: {error}", "make it of dicts, arrays, numbers and strings only")
        return
    if not isinstance(state, dict) or "weights" not in state:
        yield Fault("get_state() has no 'weights'", "give a dict with {name: array} under 'weights'")
        return
    two.set_state(state)
    found = difference(two.get_state(), one.get_state()) or act_difference(lab.act(two), lab.act(one))
    if found:
        yield Fault(f"an actor with its state acts in another way: {found}", "put all that acting needs into the state")


def unknown_utilities_are_refused(lab: GraphLab) -> Iterator[Fault]:
    """call() of a utility that there is not is a UserError that names it."""
    actor = lab.actor(lab.template)
    try:
        actor.call("no_such_utility")
    except Exception as error:
        if isinstance(error, UserError) and "no_such_utility" in str(error):
            return
        outcome = f"raised {describe(error)}"
    else:
        outcome = "was taken without a word"
    yield Fault(f"call('no_such_utility') {outcome}", "use rlcore.policy_graph.call_utility")


def _members() -> list[str]:
    own = [*vars(Actor), *Actor.__annotations__]
    return sorted({name for name in own if not name.startswith("_")})
