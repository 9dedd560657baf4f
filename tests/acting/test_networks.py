from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from pydantic import ValidationError

from rlcore.acting import MLP, Architecture, ModelConfig, orthogonal


def drawn(inputs: int, hidden: tuple[int, ...], outputs: int, seed: int = 0) -> dict[str, Any]:
    model = ModelConfig(hidden=hidden)
    architecture = Architecture.of(Box(-1.0, 1.0, (inputs,)), Discrete(outputs), model, value=False)
    return architecture.init(np.random.default_rng(seed))


def test_weights_have_canonical_names_and_layouts() -> None:
    weights = drawn(4, (8, 6), 2)
    assert {name: array.shape for name, array in weights.items()} == {
        "policy.hidden_0.weight": (4, 8),
        "policy.hidden_0.bias": (8,),
        "policy.hidden_1.weight": (8, 6),
        "policy.hidden_1.bias": (6,),
        "policy.out.weight": (6, 2),
        "policy.out.bias": (2,),
    }
    assert all(array.dtype == np.float32 and array.flags.c_contiguous for array in weights.values())
    assert not any(weights[name].any() for name in weights if name.endswith("bias"))


@pytest.mark.parametrize(("rows", "columns"), [(4, 8), (8, 4), (5, 5), (3, 1)])
def test_initial_weights_are_orthogonal(rows: int, columns: int) -> None:
    matrix = orthogonal(rows, columns, math.sqrt(2.0), np.random.default_rng(0)).astype(np.float64)
    gram = matrix.T @ matrix if rows >= columns else matrix @ matrix.T
    np.testing.assert_allclose(gram, 2.0 * np.eye(min(rows, columns)), atol=1e-6)


def test_the_last_layers_have_their_own_gains() -> None:
    weights = Architecture.of(Box(-1.0, 1.0, (4,)), Discrete(3), ModelConfig()).init(np.random.default_rng(0))
    np.testing.assert_allclose(np.linalg.norm(weights["value.out.weight"]), 1.0, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(weights["policy.out.weight"], axis=0), 0.01, rtol=1e-6)


def test_the_generator_decides_the_weights() -> None:
    one, same, other = (drawn(3, (4,), 2, seed) for seed in (1, 1, 2))
    assert all(one[name].tobytes() == same[name].tobytes() for name in one)
    assert one["policy.out.weight"].tobytes() != other["policy.out.weight"].tobytes()


@pytest.mark.parametrize(
    ("activation", "expected"), [("relu", [[3.5], [0.5]]), ("tanh", [[1.0 + math.tanh(1.5)], [math.tanh(0.0)]])]
)
def test_literal_forward(activation: Any, expected: Any) -> None:
    weights = {
        "q.hidden_0.weight": np.array([[1.0, -1.0]], np.float32),
        "q.hidden_0.bias": np.array([0.5, -1.0], np.float32),
        "q.out.weight": np.array([[2.0], [5.0]], np.float32),
        "q.out.bias": np.array([-0.5], np.float32),
    }
    hidden = np.array([[1.5, -2.0], [0.0, -0.5]])
    expected = (np.maximum(hidden, 0) if activation == "relu" else np.tanh(hidden)) @ [[2.0], [5.0]] - 0.5
    x = np.array([[1.0], [-0.5]], np.float32)
    y = MLP(weights, "q", activation)(x)
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    assert y.dtype == np.float32 and x.tolist() == [[1.0], [-0.5]]


def test_without_hidden_layers_it_is_linear() -> None:
    weights = drawn(3, (), 2)
    x = np.eye(3, dtype=np.float32)
    assert MLP(weights, "policy", "tanh")(x).tolist() == weights["policy.out.weight"].tolist()


def test_more_than_ten_layers_keep_their_order() -> None:
    weights = drawn(2, (3,) * 12, 2)
    x = expected = np.ones((1, 2), np.float32)
    for i in range(12):
        expected = np.tanh(expected @ weights[f"policy.hidden_{i}.weight"])
    np.testing.assert_allclose(MLP(weights, "policy", "tanh")(x), expected @ weights["policy.out.weight"], rtol=1e-5)


@pytest.mark.parametrize("given", [{"hidden": [0]}, {"activation": "gelu"}, {"lstm": -1}, {"hiden": [64]}])
def test_B163_model_settings_are_checked(given: Any) -> None:
    with pytest.raises(ValidationError):
        ModelConfig.model_validate(given)


def test_B164_every_model_setting_is_accepted() -> None:
    given = {"hidden": [32, 16], "activation": "relu", "lstm": 8, "encoder": "impala", "shared_value": True}
    rest: dict[str, Any] = {"custom": None, "settings": {}, "precision": "float32", "compile": False}
    rest["tower"] = {"blocks": 4, "channels": 64}
    config = ModelConfig.model_validate({**given, "scale": {"obs": False}})
    assert config.model_dump(mode="json") == {**given, "scale": {"obs": False}, **rest}
    tower = {"encoder": "tower", "tower": {"blocks": 2, "channels": 16}}
    assert ModelConfig.model_validate(tower).model_dump(mode="json").items() >= tower.items()
    assert ModelConfig().hidden is None and ModelConfig().activation is None


@pytest.mark.parametrize("rows", [1, 1024, 1025, 3000])
def test_rows_are_computed_alike_however_many_there_are(rows: int) -> None:
    network = MLP(drawn(3, (16, 16), 2), "policy", "tanh")
    x = np.random.default_rng(0).normal(size=(rows, 3)).astype(np.float32)
    found = network(x)
    assert found.shape == (rows, 2) and found.dtype == np.float32
    np.testing.assert_allclose(found, np.concatenate([network(x[i : i + 7]) for i in range(0, rows, 7)]), atol=1e-6)
