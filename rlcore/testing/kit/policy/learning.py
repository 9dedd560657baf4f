"""Rules about gradients, updates, and what they leave alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.batch import LENGTH, REWARDS, SampleBatch
from rlcore.errors import OptimizerError, RlcoreError
from rlcore.policy_graph import ROW, LearnOutput, PolicyGraph, Weights
from rlcore.testing.kit.policy.lab import GraphLab
from rlcore.testing.kit.report import Fault, Untested
from rlcore.testing.kit.trees import batch_tree, copied, difference

#: How far two computations of one thing may be apart, and two ways of applying the same gradients.
SAME, APPLIED = 1e-5, 1e-6


def gradients_are_those_of_the_trainable_weights(lab: GraphLab) -> Iterator[Fault]:
    """gradients() gives finite floats for exactly the weights that are trainable, in their shapes."""
    graph = lab.build()
    gradients, weights = graph.gradients(lab.batch()).gradients, graph.get_weights()
    if gradients.keys() != graph.trainable:
        found = difference(dict.fromkeys(gradients, 0), dict.fromkeys(graph.trainable, 0))
        yield Fault(f"gradients() does not give what is trainable: {found}", "give one for each name in trainable")
    for name, gradient in gradients.items():
        array: Any = gradient
        shape = weights[name].shape if name in weights else None
        if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype.kind != "f":
            said = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else f"a {type(array).__name__}"
            yield Fault(f"the gradient of {name} is {said}", f"give an array of floats of shape {shape}")
        elif not np.isfinite(array).all():
            yield Fault(f"the gradient of {name} is not finite", "look for logarithms of 0 and divisions by 0")


def gradients_change_nothing(lab: GraphLab) -> Iterator[Fault]:
    """gradients() changes neither the graph nor the batch, and gives the same a second time."""
    graph, batch = lab.build(), lab.batch()
    state, columns = copied(graph.get_state()), copied(batch_tree(batch))
    first = copied(graph.gradients(batch).gradients)
    found = difference(graph.get_state(), state)
    if found:
        yield Fault(f"gradients() changed the graph: {found}", "leave every change to apply_gradients and on_progress")
    found = difference(batch_tree(batch), columns)
    if found:
        yield Fault(f"gradients() changed the batch: {found}", "compute in arrays of its own")
    found = difference(graph.gradients(batch).gradients, first)
    if found:
        yield Fault(f"gradients() of the same batch gave something else: {found}", "keep nothing of a call")


def count_is_the_number_of_samples(lab: GraphLab) -> Iterator[Fault]:
    """count is the number of rows that the gradients are averaged over: those of the units that were chosen."""
    graph, batch = lab.build(), lab.batch()
    for units in (None, *lab.minibatches(2)):
        rows = len(batch) if units is None else _rows(graph, batch, units)
        count = graph.gradients(batch, units).count
        if count != rows:
            chosen = "all units" if units is None else f"{len(units)} units"
            yield Fault(f"count is {count} for {chosen} with {rows} rows", "count the rows that the loss averages over")
            return


def gradients_are_averaged_per_sample(lab: GraphLab) -> Iterator[Fault]:
    """The gradients of a batch are the mean of those of its parts, weighted by their counts."""
    graph = lab.build_apart()
    # Pinned once, so that what is normalised over the batch is so for all parts alike.
    batch = lab.finish(graph, lab.raw_copy())
    samples = graph.pin(batch) if _pins(graph) else batch
    whole = graph.gradients(samples, lab.units())
    order = np.random.default_rng(3).permutation(lab.units())
    # Parts of very different sizes, so that a mean of means would show.
    parts = [graph.gradients(samples, units) for units in np.split(order, [max(1, len(order) // 5)])]
    total = sum(part.count for part in parts)
    mean = {
        name: np.asarray(sum(part.gradients[name].astype(np.float64) * (part.count / total) for part in parts))
        for name in whole.gradients
    }
    mean = {name: array.astype(whole.gradients[name].dtype) for name, array in mean.items()}
    found = difference(mean, whole.gradients, SAME)
    if found:
        yield Fault(
            f"the mean of the parts' gradients, weighted by count, is not the whole's: {found}",
            "divide the sum over rows by their number; a normalisation over the minibatch needs a setting "
            "normalize_advantages that turns it off",
        )


def learning_is_gradients_then_apply(lab: GraphLab) -> Iterator[Fault]:
    """learn() does what gradients() and then apply_gradients() do, update after update."""
    one, two, batch = lab.build(), lab.build(), lab.batch()
    for number, units in enumerate(lab.minibatches()):
        one.learn(batch, units)
        two.apply_gradients(two.gradients(batch, units).gradients)
        found = difference(one.get_weights(), two.get_weights(), APPLIED)
        if found:
            yield Fault(
                f"update {number + 1} by learn() and by gradients() and apply_gradients() differ: {found}",
                "clip, schedule and step alike on both ways",
            )
            return


def pinned_samples_are_learnt_from_alike(lab: GraphLab) -> Iterator[Fault]:
    """learn() and gradients() do the same with a batch and with what pin() made of it."""
    one, two, batch = lab.build(), lab.build(), lab.batch()
    pinned = two.pin(batch)
    if pinned.rows != len(batch):
        yield Fault(f"pin() of {len(batch)} rows says that they are {pinned.rows}", "set rows to len(batch)")
    for units in lab.minibatches():
        found = None
        if _pins(two):
            found = difference(two.gradients(pinned, units).gradients, one.gradients(batch, units).gradients, SAME)
        one.learn(batch, units)
        two.learn(pinned, units)
        found = found or difference(two.get_weights(), one.get_weights(), APPLIED)
        if found:
            yield Fault(
                f"samples that were pinned are learnt from in another way: {found}",
                "prepare samples in pin() only, and let learn() and gradients() pin what is not",
            )
            return


def learning_repeats(lab: GraphLab) -> Iterator[Fault]:
    """Two graphs of one spec learn the same from the same minibatches, number by number."""
    one, two, batch = lab.build(), lab.build(), lab.batch()
    for units in lab.minibatches():
        first, second = (_output(graph.learn(batch, units)) for graph in (one, two))
        found = difference(one.get_state(), two.get_state()) or difference(first, second)
        if found:
            yield Fault(
                f"the same updates gave something else: {found}",
                "draw from a generator that the constructor's rng seeded and that get_state() holds",
            )
            return


def learning_moves_the_weights(lab: GraphLab) -> Iterator[Fault]:
    """An update changes trainable weights."""
    graph = lab.build()
    try:
        still = graph.update_rule().learning_rate == 0.0
    except OptimizerError:
        still = False
    if still:
        raise Untested("the learning rate is 0")
    before = copied(graph.get_weights())
    for units in lab.minibatches():
        graph.learn(lab.batch(), units)
    after = graph.get_weights()
    if all(difference(after[name], before[name]) is None for name in graph.trainable):
        yield Fault("three updates changed no trainable weight", "apply what gradients() gives in apply_gradients()")


def learning_leaves_the_batch_alone(lab: GraphLab) -> Iterator[Fault]:
    """Pinning, learning and weights work with arrays that cannot be written to, as all are that were sent."""
    graph, batch = lab.build(), lab.batch(locked=True)
    pinned = graph.pin(batch)
    graph.learn(pinned, lab.units())
    graph.learn(batch)
    gradients = graph.gradients(batch).gradients
    for array in gradients.values():
        array.flags.writeable = False
    graph.apply_gradients(gradients)
    found = difference(batch_tree(batch), batch_tree(lab.batch()))
    if found:
        yield Fault(f"learning changed the batch: {found}", "compute in arrays of its own")


def the_update_rule_is_followed(lab: GraphLab) -> Iterator[Fault]:
    """apply_gradients() moves the weights as update_rule() does outside of the framework, to 1e-6."""
    graph, batch = lab.build(), lab.batch()
    try:
        rule = graph.update_rule()
    except OptimizerError as error:
        raise Untested(f"it has no update_rule: {error}") from error
    weights = _trainable(graph)
    state = rule.init(weights)
    for number, units in enumerate(lab.minibatches()):
        gradients = copied(graph.gradients(batch, units).gradients)
        weights, state = graph.update_rule().update(weights, gradients, state)
        graph.apply_gradients(gradients)
        found = difference(_trainable(graph), weights, APPLIED)
        if found:
            yield Fault(
                f"after update {number + 1} apply_gradients() and update_rule() are apart: {found}",
                "give the rule the same step, clipping and epsilon as the optimizer in apply_gradients()",
            )
            return


def updates_that_are_not_finite_are_skipped(lab: GraphLab) -> Iterator[Fault]:
    """learn() from rewards that are NaN changes nothing and says that it skipped; learning goes on afterwards."""
    graph = lab.build()
    poison = lab.raw_copy()
    poison.rows[REWARDS][:] = np.nan
    try:
        finished = lab.finish(graph, poison)
    except RlcoreError as error:
        raise Untested(f"postprocess() takes no such rewards: {error}") from error
    before = copied(graph.get_state())
    output = graph.learn(finished)
    found = difference(graph.get_state(), before)
    if output.skipped and found:
        yield Fault(f"a skipped update changed the graph: {found}", "change nothing where the loss is not finite")
    elif not output.skipped and not _finite(graph.get_weights()):
        yield Fault(
            "an update from rewards that are NaN was not skipped, and made weights NaN",
            "skip updates whose loss or gradient is not finite, and set skipped in the LearnOutput",
        )
    elif graph.learn(lab.batch()).skipped:
        yield Fault("after a skipped update good ones are skipped as well", "clear what was not finite")


def one_sample_is_enough(lab: GraphLab) -> Iterator[Fault]:
    """A minibatch of one unit is learnt from: nothing in it is NaN."""
    graph = lab.build()
    output = graph.learn(lab.batch(), lab.units()[:1])
    if output.skipped or not _finite(graph.get_weights()):
        yield Fault(
            "a minibatch of one unit was " + ("skipped" if output.skipped else "learnt from with NaN"),
            "leave a single advantage as it is where advantages are normalised: its deviation is 0 or NaN",
        )


def statistics_are_numbers(lab: GraphLab) -> Iterator[Fault]:
    """stats are finite floats by name; td_error has one number for each row of the minibatch, or is None."""
    graph, batch = lab.build(), lab.batch()
    units = lab.minibatches(2)[0]
    rows = _rows(graph, batch, units)
    for call, output in (("gradients", graph.gradients(batch, units)), ("learn", graph.learn(batch, units))):
        bad = [name for name, value in output.stats.items() if not isinstance(value, float) or not math.isfinite(value)]
        if bad or not all(isinstance(name, str) for name in output.stats):
            yield Fault(f"stats of {call}() are no finite floats: {', '.join(bad)}", "give {name: float}")
        if output.td_error is not None and np.shape(output.td_error) != (rows,):
            yield Fault(
                f"td_error of {call}() has shape {np.shape(output.td_error)} for {rows} rows",
                "give one error for each row that was learnt from, or None",
            )


def _trainable(graph: PolicyGraph) -> Weights:
    return copied(graph.get_weights(graph.trainable))  # type: ignore[no-any-return]


def _pins(graph: PolicyGraph) -> bool:
    """Whether it has a form of its own for samples that were pinned; else it is given batches only."""
    return type(graph).pin is not PolicyGraph.pin


def _rows(graph: PolicyGraph, batch: SampleBatch, units: NDArray[np.int64]) -> int:
    return len(units) if graph.minibatch_unit is ROW else int(batch.cuts[LENGTH][units].sum())


def _output(output: LearnOutput) -> dict[str, Any]:
    return {"stats": output.stats, "td_error": output.td_error, "stop": output.stop, "skipped": output.skipped}


def _finite(weights: Weights) -> bool:
    return all(np.isfinite(array).all() for array in weights.values())
