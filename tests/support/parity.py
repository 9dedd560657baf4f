"""One policy graph in two frameworks: equal weights, equal samples, and how far what they compute is apart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore import registry
from rlcore.batch import SampleBatch
from rlcore.graph_spec import GraphSpec
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import PolicyGraph, Weights
from rlcore.sampling.collect import Fragment
from rlcore.testing.environments import Drawn

FRAMEWORKS = ("torch", "tf")
#: How far numbers may be apart, as a part of the largest in their array, and how far weights after :data:`UPDATES`.
TOLERANCES = {"float64": 1e-9, "float32": 1e-5}
UPDATES, AFTER_UPDATES = 10, 1e-4


class Pair(NamedTuple):
    """The same policy graph in :data:`FRAMEWORKS`, with the same weights, and samples of the first."""

    graphs: tuple[Any, Any]
    batch: SampleBatch


def pair(
    name: str,
    observation_space: gymnasium.Space[Any],
    action_space: gymnasium.Space[Any],
    settings: Mapping[str, Any],
    precision: str,
    steps: int = 9,
) -> Pair:
    """``name`` without the framework. Weights are moved away from the start, where policies are nearly uniform, after
    the samples were drawn, so that these are not of the policy that learns."""
    model = {**settings.get("model", {}), "precision": precision}
    first, second = (
        graph_of(f"{framework}.{name}", observation_space, action_space, {**settings, "model": model})
        for framework in FRAMEWORKS
    )
    start = first.get_weights()
    assert_equal(start, second.get_weights())
    env = partial(Drawn, observation_space, action_space)
    batch = PolicyEvaluator(env=env, graph=first, num_envs=3, collect=Fragment(steps), rng=4).sample()
    assert isinstance(batch, SampleBatch)
    weights = moved(start)
    for graph in (first, second):
        graph.set_weights(weights)
    return Pair((first, second), batch)


def moved(weights: Weights) -> Weights:
    """By steps at which the layers' outputs keep their size: sums of large numbers would show rounding only."""
    rng = np.random.default_rng(5)
    inputs = {name: max(math.prod(w.shape[:-1]), 4) for name, w in weights.items()}
    return {
        name: (w + 0.2 / math.sqrt(inputs[name]) * rng.standard_normal(w.shape)).astype(w.dtype)
        for name, w in weights.items()
    }


def graph_of(
    name: str,
    observation_space: gymnasium.Space[Any],
    action_space: gymnasium.Space[Any],
    settings: Mapping[str, Any],
) -> PolicyGraph:
    graph = registry.load("policy_graph", name)
    config = graph.Config(**settings)
    return GraphSpec(graph, observation_space, action_space, config, np.random.SeedSequence(0)).build()


def assert_equal(one: Weights, other: Weights) -> None:
    """Bit by bit."""
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert np.array_equal(array, other[name]) and array.dtype == other[name].dtype, name


def assert_near(one: Mapping[str, Any], other: Mapping[str, Any], tolerance: float) -> None:
    """To ``tolerance`` of the largest absolute value of each array; of numbers below 1 absolutely."""
    assert one.keys() == other.keys()
    for name in one:
        assert_within(one[name], other[name], tolerance * _scale(one[name]), name)


def assert_gradients_near(one: Mapping[str, Any], other: Mapping[str, Any], tolerance: float) -> None:
    """The same, or to two roundings of a number near 1: gradients of biases and deviations are sums over rows of such
    numbers, which may cancel each other all but for their rounding, and none is known better."""
    assert one.keys() == other.keys()
    for name in one:
        roundings = 2.0 * float(np.finfo(np.asarray(one[name]).dtype).eps)
        assert_within(one[name], other[name], max(tolerance * _scale(one[name]), roundings), name)


def _scale(numbers: Any) -> float:
    return float(np.max(np.abs(numbers), initial=0.0)) if np.ndim(numbers) else max(1.0, abs(numbers))


def assert_within(one: Any, other: Any, distance: float, name: str) -> None:
    """No two numbers further apart than ``distance``."""
    assert np.shape(one) == np.shape(other), name
    furthest = float(np.max(np.abs(np.asarray(one, np.float64) - np.asarray(other, np.float64)), initial=0.0))
    assert furthest <= distance, f"{name}: {furthest:.3g} apart, {distance:.3g} allowed"


def assert_parity(own: Pair, precision: str) -> None:
    """Log-probabilities, values, statistics and gradients of both agree, and weights after some updates."""
    (one, other), batch = own.graphs, own.batch
    tolerance = TOLERANCES[precision]
    found = [_forward(graph, batch) for graph in own.graphs]
    assert_near(found[0], found[1], tolerance)
    units = one.minibatch_unit.count(batch)
    for chosen in (None, some(units, 0)):
        theirs, ours = (graph.gradients(batch, chosen) for graph in own.graphs)
        assert theirs.count == ours.count
        assert_near(theirs.stats, ours.stats, tolerance)
        assert_gradients_near(theirs.gradients, ours.gradients, tolerance)
        assert (theirs.td_error is None) == (ours.td_error is None)
        if theirs.td_error is not None and ours.td_error is not None:
            assert_near({"td_error": theirs.td_error}, {"td_error": ours.td_error}, tolerance)
    pinned = [graph.pin(batch) for graph in own.graphs]
    for i in range(UPDATES):
        theirs, ours = (
            graph.learn(samples, some(units, i)) for graph, samples in zip(own.graphs, pinned, strict=True)
        )
        assert not theirs.skipped and not ours.skipped
    assert_weights_near(one, other, AFTER_UPDATES)


def assert_weights_near(one: PolicyGraph, other: PolicyGraph, distance: float) -> None:
    """Those of two graphs no further apart than ``distance``."""
    after = other.get_weights()
    for name, array in one.get_weights().items():
        assert_within(array, after[name], distance, name)


def some(units: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).permutation(units)[: max(1, units // 2)]


def _forward(graph: Any, batch: SampleBatch) -> dict[str, NDArray[Any]]:
    found = {"log_probs": graph.log_probs(batch)} if graph.log_probs(batch) is not None else {}
    if getattr(graph, "has_value", False):
        rows = {name: column for name, column in batch.rows.items() if name != "vf_preds"}
        bare = SampleBatch(rows, batch.cuts)
        valued = graph.postprocess(bare) if hasattr(graph, "central_values") else graph.with_values(bare)
        found |= {"values": valued["vf_preds"], "last_values": valued.cuts["last_value"]}
    return found
