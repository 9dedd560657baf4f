"""dynamics in torch and in TensorFlow computes the same, plans alike, and goes on in the other framework."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from support.parity import (
    AFTER_UPDATES,
    FRAMEWORKS,
    TOLERANCES,
    UPDATES,
    assert_equal,
    assert_gradients_near,
    assert_near,
    assert_weights_near,
    graph_of,
    moved,
    some,
)

from rlcore.batch import WEIGHTS, SampleBatch
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Progress
from rlcore.returns import as_transitions
from rlcore.sampling.collect import Fragment
from rlcore.testing.environments import Drawn

for package in ("rlcore_torch", "rlcore_tf"):
    pytest.importorskip(package)

PLACE = gymnasium.spaces.Box(-2.0, 2.0, (3,), np.float32)
FORCE = gymnasium.spaces.Box(np.array([0, -3], np.float32), np.array([10, 1], np.float32))
DISCRETE = gymnasium.spaces.Discrete(3, start=5)
PLANNER = {"horizon": 3, "population": 8, "elites": 2, "iterations": 2}
TOLERANCE = TOLERANCES["float32"]
#: Actions, settings.
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "box": (FORCE, {"members": 3, "model": {"hidden": [8, 6]}}),
    "discrete": (DISCRETE, {"members": 2, "model": {"hidden": [8], "activation": "tanh"}, "beta": 0.0}),
    "linear": (FORCE, {"members": 1, "model": {"hidden": []}, "max_grad_norm": 0.1, "bounds_coeff": 0.5}),
    "scheduled": (FORCE, {"members": 2, "learning_rate": [[0, 1e-3], [10, 1e-2]], "scale_rate": [[0, 0.5], [10, 0.1]]}),
}


def pair(case: str) -> tuple[Any, Any, SampleBatch]:
    actions, settings = CASES[case]
    one, other = (
        graph_of(f"{framework}.dynamics", PLACE, actions, {**settings, "planner": PLANNER}) for framework in FRAMEWORKS
    )
    assert_equal(one.get_weights(), other.get_weights())
    evaluator = PolicyEvaluator(
        env=partial(Drawn, PLACE, actions), graph=one, num_envs=3, collect=Fragment(9), rng=4
    )
    batch = as_transitions(evaluator.sample())
    weights = moved(one.get_weights())
    for name in weights:
        if "variance" in name and name.startswith("scale"):
            weights[name] = np.abs(weights[name])
    for graph in (one, other):
        graph.set_weights(weights)
    if case == "discrete":
        batch = batch.with_rows(**{WEIGHTS: np.linspace(0.1, 2.0, len(batch), dtype=np.float32)})
    return one, other, batch


@pytest.mark.parametrize("case", CASES)
def test_they_compute_the_same(case: str) -> None:
    one, other, batch = pair(case)
    for chosen in (None, some(len(batch), 0)):
        theirs, ours = (graph.gradients(batch, chosen) for graph in (one, other))
        assert theirs.count == ours.count
        assert_near(theirs.stats, ours.stats, TOLERANCE)
        assert_gradients_near(theirs.gradients, ours.gradients, TOLERANCE)
        assert_near({"td_error": theirs.td_error}, {"td_error": ours.td_error}, TOLERANCE)
    pinned = [graph.pin(batch) for graph in (one, other)]
    for i in range(UPDATES):
        theirs, ours = (
            graph.learn(samples, some(len(batch), i)) for graph, samples in zip((one, other), pinned, strict=True)
        )
        assert not theirs.skipped and not ours.skipped
        for graph in (one, other):
            graph.on_progress(Progress(env_steps=i, updates=i + 1))
    assert_weights_near(one, other, AFTER_UPDATES)
    other.set_state(one.get_state())
    for graph in (one, other):
        graph.learn(batch)
    assert_weights_near(one, other, TOLERANCE)


@pytest.mark.parametrize("case", ["box", "discrete"])
def test_they_and_their_actors_plan_alike(case: str) -> None:
    one, other, batch = pair(case)
    found = []
    for policy in (one, other, one.actor(), other.actor()):
        state = policy.initial_state(len(batch))
        found.append(policy.act(batch.obs, state, explore=False, rng=np.random.default_rng(0)))
    for own in found[1:]:
        np.testing.assert_allclose(own.actions, found[0].actions, atol=1e-5)


def test_many_updates_in_one_go_are_the_same_as_one_by_one() -> None:
    _, one, batch = pair("box")
    _, other, _ = pair("box")
    assert len(batch) == 27
    outputs = list(one.learn_minibatches(batch, 3))
    for part in np.arange(27).reshape(3, 9):
        output = other.learn(batch, part)
    assert [own.rows for own in outputs] == [9, 9, 9]
    assert outputs[-1].stats == pytest.approx(output.stats, rel=1e-5)
    assert_weights_near(one, other, 1e-6)
