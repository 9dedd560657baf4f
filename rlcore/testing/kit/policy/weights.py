"""Rules about weights, their names and layouts, and about a graph's whole state."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from rlcore.errors import CheckpointError, UserError
from rlcore.policy_graph import PolicyGraph, Progress, Weights
from rlcore.testing.kit.policy.acting import act_difference
from rlcore.testing.kit.policy.lab import GraphLab
from rlcore.testing.kit.report import Fault, Untested
from rlcore.testing.kit.rules import describe
from rlcore.testing.kit.trees import copied, difference, read_only, stored

_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*")
WEIGHT, BIAS = ".weight", ".bias"


def weights_are_named_arrays(lab: GraphLab) -> Iterator[Fault]:
    """Weights are arrays of finite numbers under dotted names of lower-case words."""
    for name, array in lab.template.get_weights().items():
        own: Any = array
        if not _NAME.fullmatch(str(name)):
            yield Fault(f"a weight is called {name!r}", "name weights like policy.hidden_0.weight")
        if not isinstance(own, np.ndarray) or own.dtype.kind not in "fiub":
            said = own.dtype if isinstance(own, np.ndarray) else type(own).__name__
            yield Fault(f"weight '{name}' is {said}", "give numpy arrays of numbers")
        elif own.dtype.kind == "f" and not np.isfinite(own).all():
            yield Fault(f"weight '{name}' is not finite", "initialise every weight")


def layouts_are_canonical(lab: GraphLab) -> Iterator[Fault]:
    """The last axis of a weight is its output: dense [in, out], convolution HWIO, an LSTM's four gates."""
    weights = lab.template.get_weights()
    layers = [name.removesuffix(WEIGHT) for name in weights if name.endswith(WEIGHT)]
    pairs = [(name, weights[name + WEIGHT], weights[name + BIAS]) for name in layers if name + BIAS in weights]
    if not pairs:
        raise Untested("there are no weights name.weight with a name.bias")
    for name, weight, bias in pairs:
        if weight.ndim > 1 and bias.shape != weight.shape[-1:]:
            yield Fault(
                f"'{name}{WEIGHT}' has shape {weight.shape}, its bias {bias.shape}",
                "transpose it to [in, out] (convolutions to [height, width, in, out]) where weights go in and out",
            )


def acting_and_trainable_name_weights(lab: GraphLab) -> Iterator[Fault]:
    """acting and trainable are sets of names of weights, neither of them empty."""
    graph, names = lab.template, lab.template.get_weights().keys()
    for what, own in (("acting", graph.acting), ("trainable", graph.trainable)):
        if not isinstance(own, frozenset) or not own:
            yield Fault(f"{what} is {own!r}", "give a frozenset of names of weights")
        elif own - names:
            yield Fault(
                f"{what} names {', '.join(sorted(own - names))}, which get_weights() lacks", "name weights only"
            )


def chosen_weights_are_given(lab: GraphLab) -> Iterator[Fault]:
    """get_weights(names) gives those weights and no others."""
    graph = lab.template
    weights = graph.get_weights()
    chosen = frozenset(sorted(weights)[:2])
    found = difference(graph.get_weights(chosen), {name: weights[name] for name in chosen})
    if found:
        yield Fault(f"get_weights of two names: {found}", "give the weights that were named")


def weights_go_round(lab: GraphLab) -> Iterator[Fault]:
    """A graph with the weights of another has those weights and acts like it."""
    one, two = lab.build(0), lab.build(1)
    _learn(lab, one)
    _tell(lab, two)
    weights = read_only(one.get_weights())
    two.set_weights(weights)
    found = difference(two.get_weights(), weights)
    if found:
        yield Fault(f"weights that were set come back as others: {found}", "store what set_weights() is given")
        return
    found = act_difference(lab.act(two), lab.act(one))
    if found:
        yield Fault(
            f"with the same weights two graphs act differently: {found}",
            "give every parameter and buffer that acting reads in get_weights()",
        )


def acting_weights_are_enough(lab: GraphLab) -> Iterator[Fault]:
    """The weights that acting names are all that another graph needs to act alike; the rest stays as it was."""
    one, two = lab.build(0), lab.build(1)
    _learn(lab, one)
    _tell(lab, two)
    before = copied(two.get_weights())
    two.set_weights(one.get_weights(one.acting))
    found = act_difference(lab.act(two), lab.act(one))
    if found:
        yield Fault(
            f"with the acting weights of another a graph acts differently: {found}", "name all that act() reads"
        )
    after = two.get_weights()
    others = [name for name in before if name not in one.acting]
    found = difference({name: after[name] for name in others}, {name: before[name] for name in others})
    if found:
        yield Fault(f"set_weights() changed a weight that was not given: {found}", "leave the others as they are")


def wrong_weights_are_refused(lab: GraphLab) -> Iterator[Fault]:
    """An unknown name or another shape is a UserError that names the weight, and nothing has changed then."""
    graph = lab.build()
    weights = copied(graph.get_weights())
    name = sorted(weights)[-1]
    moved = {own: array + np.asarray(1, array.dtype) for own, array in weights.items() if array.dtype.kind == "f"}
    cases: dict[str, tuple[str, Weights]] = {
        "an unknown name": ("no.such_weight", {**moved, "no.such_weight": np.zeros(1, np.float32)}),
        "another shape": (name, {**moved, name: np.zeros((*weights[name].shape, 2), weights[name].dtype)}),
    }
    for what, (named, given) in cases.items():
        try:
            graph.set_weights(given)
        except UserError as error:
            if named not in str(error):
                yield Fault(f"{what} is refused without saying which: {error}", f"name the weight, '{named}' here")
        except Exception as error:
            yield Fault(f"{what} raised {describe(error)}", "check with rlcore.policy_graph.check_weights")
        else:
            yield Fault(f"{what} was taken without a word", "check with rlcore.policy_graph.check_weights")
        found = difference(graph.get_weights(), weights)
        if found:
            yield Fault(f"weights with {what} were refused, and some were set: {found}", "check before anything is set")
            graph.set_weights(weights)


def weights_are_copied(lab: GraphLab) -> Iterator[Fault]:
    """Weights that were taken do not change with the graph, nor the graph with weights that it was given."""
    graph = lab.build()
    taken = graph.get_weights()
    kept = copied(taken)
    _learn(lab, graph)
    found = difference(taken, kept)
    if found:
        yield Fault(f"what get_weights() gave changed with an update: {found}", "copy arrays in get_weights()")
    given = copied(kept)
    graph.set_weights(given)
    for array in given.values():
        array[...] = array + 1
    found = difference(graph.get_weights(), kept)
    if found:
        yield Fault(f"the graph changed with arrays that it was given: {found}", "copy arrays in set_weights()")


def states_can_be_stored(lab: GraphLab) -> Iterator[Fault]:
    """get_state() is a tree that a checkpoint can hold, with the weights under 'weights'."""
    graph = lab.build()
    _learn(lab, graph)
    state: Any = graph.get_state()
    try:
        stored(state)
    except CheckpointError as error:
        yield Fault(f"get_state() cannot be stored: {error}", "make it of dicts, arrays, numbers and strings only")
        return
    if not isinstance(state, dict) or "weights" not in state:
        yield Fault("get_state() has no 'weights'", "give a dict with {name: array} under 'weights'")
        return
    found = difference(state["weights"], graph.get_weights())
    if found:
        yield Fault(f"the weights in get_state() are not those of get_weights(): {found}", "give the same in both")


def states_go_on_exactly(lab: GraphLab) -> Iterator[Fault]:
    """A new graph with a stored state learns and acts as the old one would have, number by number."""
    batch, minibatches = lab.batch(), lab.minibatches(5)
    assert lab.template
    for updates in (0, 3):
        one, two = lab.spec(0).build(), lab.spec(1).build()
        for number in range(updates):
            one.learn(batch, minibatches[number])
            one.on_progress(_progress(number + 1))
        two.set_state(stored(one.get_state()))
        for number in range(updates, updates + 2):
            for graph in (one, two):
                graph.learn(batch, minibatches[number])
                graph.on_progress(_progress(number + 1))
        found = difference(two.get_state(), one.get_state()) or act_difference(lab.act(two), lab.act(one))
        if found:
            yield Fault(
                f"restored after {updates} updates it goes another way: {found}",
                "put the optimizer's memory, targets, schedules, coefficients and generators into the state",
            )
            return


def states_are_copies(lab: GraphLab) -> Iterator[Fault]:
    """A state does not change while the graph learns on, nor while one that was restored from it does."""
    graph = lab.build()
    _learn(lab, graph)
    state = graph.get_state()
    kept = copied(state)
    _learn(lab, graph)
    found = difference(state, kept)
    if found:
        yield Fault(f"a state changed while the graph learnt on: {found}", "copy arrays in get_state()")
        return
    graph.set_state(state)
    _learn(lab, graph)
    found = difference(state, kept)
    if found:
        yield Fault(f"a state changed while a graph restored from it learnt on: {found}", "copy arrays in set_state()")


def _learn(lab: GraphLab, graph: PolicyGraph) -> None:
    batch = lab.batch()
    for number, units in enumerate(lab.minibatches()):
        graph.learn(batch, units)
        graph.on_progress(_progress(number + 1))


def _tell(lab: GraphLab, graph: PolicyGraph) -> None:
    """Brings ``graph`` as far as one that has learnt: what follows a schedule, as exploring may, is no weight."""
    for number in range(len(lab.minibatches())):
        graph.on_progress(_progress(number + 1))


def _progress(updates: int) -> Progress:
    return Progress(env_steps=1000 * updates, learnt_rows=24 * updates, updates=updates, stats={"loss": 0.1})
