"""dqn, ddpg, td3, sac and cql in torch and in TensorFlow compute the same, whatever the model and the spaces."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from numpy.typing import NDArray
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

VECTOR = Box(-2.0, 2.0, (5,), np.float32)
IMAGE = Box(0, 255, (36, 36, 1), np.uint8)
BOTH = Dict(eye=Box(0, 255, (2, 36, 36), np.uint8), place=VECTOR)
MASKED = Dict(place=VECTOR, action_mask=MultiBinary(4))
DISCRETE = Discrete(3, start=5)
BOX = Box(np.array([0, -3], np.float32), np.array([10, 1], np.float32))
SMALL = {"hidden": [8, 6]}
DISTRIBUTION = {"low": -3.0, "high": 4.0, "atoms": 7}
RAINBOW = {"dueling": True, "distribution": DISTRIBUTION, "noisy": 0.5, "n_step": 3}

#: Graph, observations, actions, settings.
CASES: dict[str, tuple[str, Any, Any, dict[str, Any]]] = {
    "dqn": ("dqn", VECTOR, DISCRETE, {"model": SMALL}),
    "dqn_linear": ("dqn", VECTOR, DISCRETE, {"model": {"hidden": []}}),
    "dqn_tanh": ("dqn", VECTOR, DISCRETE, {"model": {"hidden": [8], "activation": "tanh"}, "huber_delta": None}),
    "dqn_single": ("dqn", VECTOR, DISCRETE, {"model": SMALL, "double": False, "tau": 0.1, "huber_delta": 0.3}),
    "dqn_dueling": ("dqn", VECTOR, DISCRETE, {"model": SMALL, "dueling": True, "n_step": 2}),
    "dqn_distribution": ("dqn", VECTOR, DISCRETE, {"model": SMALL, "distribution": DISTRIBUTION}),
    "dqn_noisy": ("dqn", VECTOR, DISCRETE, {"model": SMALL, "noisy": 0.5}),
    "dqn_rainbow": ("dqn", VECTOR, DISCRETE, {"model": SMALL, **RAINBOW, "tau": 0.1}),
    "dqn_masked": ("dqn", MASKED, Discrete(4), {"model": SMALL}),
    "dqn_nature": ("dqn", IMAGE, DISCRETE, {"model": {"hidden": [8]}}),
    "dqn_rainbow_nature": ("dqn", BOTH, DISCRETE, {"model": {"hidden": [8]}, **RAINBOW}),
    "dqn_impala": ("dqn", Box(0, 255, (9, 7, 3), np.uint8), DISCRETE, {"model": {"hidden": [8], "encoder": "impala"}}),
    "dqn_lstm": ("dqn", VECTOR, DISCRETE, {"model": {**SMALL, "lstm": 4}, "n_step": 2, "burn_in": 2, "tau": 0.1}),
    "dqn_lstm_rainbow": (
        "dqn",
        MASKED,
        Discrete(4),
        {"model": {"hidden": [8], "lstm": 4}, "dueling": True, "distribution": DISTRIBUTION},
    ),
    "dqn_lstm_nature": ("dqn", BOTH, DISCRETE, {"model": {"hidden": [8], "lstm": 4}, "n_step": 2}),
    "ddpg": ("ddpg", VECTOR, BOX, {"model": SMALL, "target_noise": 0.3}),
    "ddpg_nature": ("ddpg", IMAGE, BOX, {"model": {"hidden": [8]}, "huber_delta": 0.5}),
    "td3": ("td3", VECTOR, BOX, {"model": SMALL}),
    "td3_bounded": ("td3", BOTH, BOX, {"model": {"hidden": [8]}, "max_grad_norm": 0.5, "policy_learning_rate": 1e-2}),
    "sac": ("sac", VECTOR, BOX, {"model": SMALL}),
    "sac_fixed": ("sac", VECTOR, BOX, {"model": SMALL, "temperature": 0.3, "huber_delta": 0.5, "n_step": 2}),
    "sac_apart": ("sac", VECTOR, BOX, {"model": SMALL, "temperature_learning_rate": 1e-2, "max_grad_norm": 0.5}),
    "sac_nature": ("sac", BOTH, Box(-1.0, 1.0, (2, 2), np.float32), {"model": {"hidden": [8]}}),
    "sac_discrete": ("sac", VECTOR, DISCRETE, {"model": SMALL, "temperature_learning_rate": 1e-2}),
    "sac_masked": ("sac", MASKED, Discrete(4), {"model": SMALL}),
    "sac_discrete_nature": ("sac", IMAGE, DISCRETE, {"model": {"hidden": [8]}}),
    "cql": ("cql", VECTOR, BOX, {"model": SMALL, "samples": 3, "conservative_weight": 0.5}),
    "cql_nature": (
        "cql",
        IMAGE,
        BOX,
        {"model": {"hidden": [8]}, "samples": 2, "temperature": 0.3, "conservative_weight": 0.5},
    ),
    "cql_discrete": ("cql", VECTOR, DISCRETE, {"model": SMALL, "conservative_weight": 0.5}),
    "cql_masked": ("cql", MASKED, Discrete(4), {"model": SMALL}),
}


def sampled(graph: Any, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]) -> SampleBatch:
    env = partial(Drawn, observation_space, action_space)
    batch = PolicyEvaluator(env=env, graph=graph, num_envs=3, collect=Fragment(9), rng=4).sample()
    assert isinstance(batch, SampleBatch)
    batch = batch if graph.minibatch_unit.name == "PIECE" else as_transitions(batch)
    weights = np.random.default_rng(6).uniform(0.2, 1.0, len(batch)).astype(np.float32)
    return batch.with_rows(**{WEIGHTS: weights})


def pair(case: str, precision: str) -> tuple[Any, Any, SampleBatch]:
    """Both graphs with the same weights, moved away from the start, targets otherwise than what they follow."""
    name, observation_space, action_space, settings = CASES[case]
    own = {**settings, "model": {**settings["model"], "precision": precision}}
    one, other = (
        graph_of(f"{framework}.{name}", observation_space, action_space, own) for framework in FRAMEWORKS
    )
    start = one.get_weights()
    assert_equal(start, other.get_weights())
    batch = sampled(one, observation_space, action_space)
    rng = np.random.default_rng(5)
    moved = {weight: (w + _step(w) * rng.standard_normal(w.shape)).astype(w.dtype) for weight, w in start.items()}
    for graph in (one, other):
        graph.set_weights(moved)
    return one, other, batch


def _step(weight: NDArray[Any]) -> float:
    """So far that outputs change, and no further: where a policy is all but certain, its gradients are differences of
    numbers that are nearly equal."""
    return float(0.4 / np.sqrt(max(4, int(np.prod(weight.shape[:-1])))))


def forward(graph: Any, batch: SampleBatch) -> dict[str, NDArray[Any]]:
    """What acting goes by."""
    rng = np.random.default_rng(8)
    out = graph.act(batch.obs, graph.initial_state(len(batch)), explore=False, rng=rng)
    found = {"actions": out.actions, **{f"state.{i}": part for i, part in enumerate(out.state)}}
    return found | ({"q": graph.q_values(batch.obs)} if hasattr(graph, "q_values") else {})


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("case", CASES)
def test_they_compute_the_same(case: str, precision: str) -> None:
    one, other, batch = pair(case, precision)
    tolerance = TOLERANCES[precision]
    assert_near(forward(one, batch), forward(other, batch), tolerance)
    units = one.minibatch_unit.count(batch)
    for chosen in (None, some(units, 0)):
        theirs, ours = (graph.gradients(batch, chosen) for graph in (one, other))
        assert theirs.count == ours.count
        assert_near(theirs.stats, ours.stats, tolerance)
        assert_gradients_near(theirs.gradients, ours.gradients, tolerance)
        assert_near({"td_error": theirs.td_error}, {"td_error": ours.td_error}, tolerance)
    pinned = [graph.pin(batch) for graph in (one, other)]
    for i in range(UPDATES):
        theirs, ours = (
            graph.learn(samples, some(units, i)) for graph, samples in zip((one, other), pinned, strict=True)
        )
        assert not theirs.skipped and not ours.skipped
        for graph in (one, other):
            graph.on_progress(Progress(env_steps=i, updates=i + 1))
    assert_weights_near(one, other, AFTER_UPDATES)
    other.set_state(one.get_state())
    for graph in (one, other):
        graph.learn(batch)
    assert_weights_near(one, other, tolerance)
