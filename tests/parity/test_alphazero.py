"""alphazero in torch and in TensorFlow computes the same, acts alike, and goes on in the other framework."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.parity import FRAMEWORKS, Pair, assert_equal, assert_parity, assert_weights_near, moved, some

from rlcore import registry
from rlcore.batch import SampleBatch
from rlcore.envs import build_env
from rlcore.graph_spec import GraphSpec
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import ActRows
from rlcore.sampling.collect import Fragment

for package in ("rlcore_torch", "rlcore_tf", "rlcore_batched"):
    pytest.importorskip(package)

SEARCH = {"simulations": 6, "leaves": 2}
TOWER = {"encoder": "tower", "tower": {"blocks": 2, "channels": 5}, "hidden": [8]}
#: A game of dice of three players.
PIG = "openspiel:pig(players=3,winscore=5,horizon=30)"
#: Environment, settings.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "shared": ("batched:tictactoe", {"model": {"hidden": [8, 6], "shared_value": True, "activation": "relu"}}),
    "two": ("batched:tictactoe", {"model": {"hidden": [8]}, "weight_decay": 0.01, "search_value_share": 0.3}),
    "tower": ("batched:connect_four", {"model": TOWER, "vf_loss_coeff": 0.5}),
    "three_players": (PIG, {"model": {"hidden": [8], "shared_value": True}}),
    "three_players_apart": (PIG, {"model": {"hidden": [8, 6]}}),
    "two_towers": ("batched:tictactoe", {"model": {**TOWER, "shared_value": False}, "max_grad_norm": None}),
}


def graph_of(framework: str, env: str, settings: dict[str, Any]) -> Any:
    graph = registry.load("policy_graph", f"{framework}.alphazero")
    built = build_env(env, 1, {})
    (spaces,) = built.groups.values()
    config = graph.Config(**settings)
    return GraphSpec(graph, *spaces, config, np.random.SeedSequence(0), built.model()).build()


def pair(case: str, precision: str) -> Pair:
    env, settings = CASES[case]
    if env.startswith("openspiel"):
        pytest.importorskip("pyspiel")
    settings = {**settings, "search": SEARCH, "model": {**settings["model"], "precision": precision}}
    one, other = (graph_of(framework, env, settings) for framework in FRAMEWORKS)
    assert_equal(one.get_weights(), other.get_weights())
    evaluator = PolicyEvaluator(env=env, graph=one, num_envs=3, collect=Fragment(9), rng=4)
    batch = evaluator.sample()
    assert isinstance(batch, SampleBatch)
    weights = moved(one.get_weights())
    for graph in (one, other):
        graph.set_weights(weights)
    return Pair((one, other), batch)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("case", CASES)
def test_they_compute_the_same(case: str, precision: str) -> None:
    assert_parity(pair(case, precision), precision)


@pytest.mark.parametrize("case", CASES)
def test_they_and_their_actors_search_alike(case: str) -> None:
    own = pair(case, "float64")
    obs = own.batch.obs
    rng = [np.random.default_rng(3) for _ in FRAMEWORKS]
    found = [graph.act(obs, explore=True, rng=own_rng) for graph, own_rng in zip(own.graphs, rng, strict=True)]
    assert np.array_equal(found[0].actions, found[1].actions)
    for name, column in found[0].extras.items():
        np.testing.assert_allclose(column, found[1].extras[name], atol=1e-6, err_msg=name)
    logits = [graph.call("network", obs) for graph in own.graphs]
    np.testing.assert_allclose(logits[0][0], logits[1][0], atol=1e-5)
    np.testing.assert_allclose(logits[0][1], logits[1][1], atol=1e-5)
    rows = len(own.batch)
    assert logits[0][1].shape == ((rows, 3) if case.startswith("three") else (rows,))


@pytest.mark.parametrize("first", [0, 1], ids=["from_torch", "from_tf"])
def test_a_state_goes_on_in_the_other_framework(first: int) -> None:
    own = pair("shared", "float32")
    one, other = own.graphs[first], own.graphs[1 - first]
    for i in range(3):
        one.learn(own.batch, some(len(own.batch), i))
    other.set_state(one.get_state())
    for graph in (one, other):
        graph.learn(own.batch)
    assert_weights_near(one, other, 1e-5)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_was_found_with_other_weights_is_forgotten(framework: str) -> None:
    graph = graph_of(framework, "batched:tictactoe", {"search": {**SEARCH, "reuse": True}, "model": {"hidden": [8]}})
    batch = PolicyEvaluator(env="batched:tictactoe", graph=graph, num_envs=2, collect=Fragment(9), rng=4).sample()
    obs, rng = batch.obs, np.random.default_rng(0)
    n = len(batch)
    rows = ActRows(np.arange(n), np.zeros(n, np.int64), np.zeros(n, np.int64), np.ones(n, np.bool_))
    graph.act(obs, rows=rows, explore=False, rng=rng)
    assert "trees" in graph.get_state()
    graph.learn(batch)
    assert "trees" not in graph.get_state()
