"""pg, a3c, ppo, impala, appo, bc and marwil in torch and in TensorFlow compute the same, whatever model and spaces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from support.parity import assert_parity, pair
from support.spaces import ACTIONS, SQUASHED

for package in ("rlcore_torch", "rlcore_tf"):
    pytest.importorskip(package)

VECTOR = Box(-2.0, 2.0, (5,), np.float32)
IMAGE = Box(0, 255, (36, 36, 1), np.uint8)
MASKED = Dict(place=VECTOR, action_mask=MultiBinary(4))
#: Settings under which every term of a loss counts.
GRAPHS: dict[str, dict[str, Any]] = {
    "pg": {"entropy_coeff": 0.02},
    "a3c": {"entropy_coeff": 0.02, "normalize_advantages": True},
    "ppo": {"entropy_coeff": 0.02, "kl_coeff": 0.3, "value_clip": 0.5},
    "impala": {"entropy_coeff": 0.02, "kl_coeff": 0.3, "vtrace_lambda": 0.9, "update_rule": "rmsprop"},
    "appo": {"entropy_coeff": 0.02, "rho_clip": 0.9, "trace_clip": 0.8},
    "bc": {"entropy_coeff": 0.02},
    "marwil": {"entropy_coeff": 0.02},
}
#: A model, and the observations that it is for.
MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "tanh": (VECTOR, {"hidden": [8, 6]}),
    "relu": (VECTOR, {"hidden": [8], "activation": "relu"}),
    "linear": (VECTOR, {"hidden": []}),
    "shared": (VECTOR, {"hidden": [8], "shared_value": True}),
    "lstm": (VECTOR, {"hidden": [8], "lstm": 6}),
    "shared_lstm": (VECTOR, {"hidden": [8], "lstm": 6, "shared_value": True}),
    "nature": (IMAGE, {"hidden": [8]}),
    "nature_lstm": (Dict(eye=Box(0, 255, (2, 36, 36), np.uint8), place=VECTOR), {"hidden": [8], "lstm": 4}),
    "impala": (Box(0, 255, (9, 7, 3), np.uint8), {"hidden": [8], "encoder": "impala", "shared_value": False}),
}
#: Actions, and whether they are squashed.
SPACES = [
    *((name, False) for name in ("discrete", "multi_discrete", "multi_discrete_2d", "multi_binary", "box_2d")),
    *((name, False) for name in ("box_half_bounded", "tuple", "nested")),
    *((name, True) for name in ("box", "nested")),
]
#: The spaces that the models come with, by turns: each model meets several.
TURNS = [("discrete", False), ("box", False), ("nested", True), ("multi_discrete", False), ("box", True)]
both_precisions = pytest.mark.parametrize("precision", ["float64", "float32"])


@both_precisions
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_models(graph: str, model: str, precision: str) -> None:
    observed, settings = MODELS[model]
    name, squash = TURNS[(list(MODELS).index(model) + list(GRAPHS).index(graph)) % len(TURNS)]
    own = pair(graph, observed, ACTIONS[name], {**GRAPHS[graph], "squash": squash, "model": settings}, precision)
    assert_parity(own, precision)


@both_precisions
@pytest.mark.parametrize(("name", "squash"), SPACES)
def test_spaces(name: str, squash: bool, precision: str) -> None:
    settings = {**GRAPHS["ppo"], "squash": squash, "model": {"hidden": [8]}}
    assert_parity(pair("ppo", VECTOR, ACTIONS[name], settings, precision), precision)


@both_precisions
def test_masks(precision: str) -> None:
    settings = {**GRAPHS["ppo"], "model": {"hidden": [8]}}
    assert_parity(pair("ppo", MASKED, Discrete(4), settings, precision), precision)


@both_precisions
@pytest.mark.parametrize("model", [{"hidden": [8]}, {"hidden": [8], "lstm": 4}], ids=["dense", "lstm"])
def test_a_critic_of_all_agents(model: dict[str, Any], precision: str) -> None:
    settings = {**GRAPHS["ppo"], "model": model, "critic_agents": {"0": VECTOR, "1": VECTOR}}
    assert_parity(pair("ppo_central", VECTOR, Discrete(3), settings, precision), precision)


@pytest.mark.slow
@both_precisions
@pytest.mark.parametrize(("name", "squash"), [*((n, False) for n in ACTIONS), *((n, True) for n in SQUASHED)])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_every_combination(graph: str, model: str, name: str, squash: bool, precision: str) -> None:
    observed, settings = MODELS[model]
    own = pair(graph, observed, ACTIONS[name], {**GRAPHS[graph], "squash": squash, "model": settings}, precision)
    assert_parity(own, precision)
