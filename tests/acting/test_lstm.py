from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from rlcore.acting.lstm import LSTM


def drawn(inputs: int, units: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    shapes = {"weight_x": (inputs, 4 * units), "weight_h": (units, 4 * units), "bias": (4 * units,)}
    return {f"p.lstm.{name}": rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def sigmoid(z: float) -> float:
    return 1.0 / (1.0 + math.exp(-z))


def test_one_unit_by_hand() -> None:
    weights = {
        "p.lstm.weight_x": np.array([[0.5, -1.0, 2.0, 0.25]], np.float32),
        "p.lstm.weight_h": np.array([[1.0, 0.5, -0.5, 2.0]], np.float32),
        "p.lstm.bias": np.array([0.0, 1.0, 0.1, -0.2], np.float32),
    }
    # x = 2, h = 0.5, c = -1: the gates' sums are 1.5, -0.75, 3.85 and 1.3.
    output, cell = LSTM(weights, "p.lstm")(
        np.array([[2.0]], np.float32), np.array([[0.5]], np.float32), np.array([[-1.0]], np.float32)
    )
    # sigmoid(-0.75) * -1 + sigmoid(1.5) * tanh(3.85), and sigmoid(1.3) times tanh of it.
    np.testing.assert_allclose(cell, [[0.496013]], atol=1e-6)
    np.testing.assert_allclose(output, [[0.360679]], atol=1e-6)
    by_hand = sigmoid(-0.75) * -1.0 + sigmoid(1.5) * math.tanh(3.85)
    assert cell[0, 0] == pytest.approx(by_hand, abs=1e-6)
    assert output[0, 0] == pytest.approx(sigmoid(1.3) * math.tanh(by_hand), abs=1e-6)


def test_without_input_and_state_only_biases_count() -> None:
    weights = {"p.lstm.weight_x": np.ones((3, 8), np.float32), "p.lstm.weight_h": np.ones((2, 8), np.float32)}
    weights["p.lstm.bias"] = np.array([0, 0, 1, 1, 0, 0, 0, 0], np.float32)
    zeros = np.zeros((4, 2), np.float32)
    output, cell = LSTM(weights, "p.lstm")(np.zeros((4, 3), np.float32), zeros, zeros)
    assert not output.any() and not cell.any()
    # A forget gate with the bias 1 keeps sigmoid(1) = 0.731059 of the cell.
    _, kept = LSTM(weights, "p.lstm")(np.zeros((4, 3), np.float32), zeros, zeros + 1)
    np.testing.assert_allclose(kept, np.full((4, 2), 0.731059), atol=1e-6)


def test_arguments_stay_as_they_are_and_results_are_new() -> None:
    weights = drawn(3, 2)
    lstm = LSTM(weights, "p.lstm")
    rng = np.random.default_rng(1)
    given = [rng.standard_normal((5, width)).astype(np.float32) for width in (3, 2, 2)]
    before = [array.copy() for array in given]
    first = lstm(*given)
    kept = [array.copy() for array in first]
    lstm(*given)
    assert all((one == other).all() for one, other in zip(given, before, strict=True))
    assert all((one == other).all() for one, other in zip(first, kept, strict=True))
    assert all(array.dtype == np.float32 and array.shape == (5, 2) for array in first)
    assert not any(np.shares_memory(one, other) for one in first for other in (*given, *weights.values()))


def test_saturated_gates_do_not_overflow() -> None:
    weights = {name: array * np.float32(1e4) for name, array in drawn(3, 2).items()}
    x, state = np.ones((1, 3), np.float32), np.ones((1, 2), np.float32)
    with np.errstate(all="raise"):
        output, cell = LSTM(weights, "p.lstm")(x, state, state)
    assert np.isfinite(output).all() and np.isfinite(cell).all()


def test_equal_to_the_layer_of_torch() -> None:
    torch = pytest.importorskip("torch")
    inputs, units, rows, steps = 5, 7, 4, 12
    weights = drawn(inputs, units)
    theirs = torch.nn.LSTM(inputs, units)
    with torch.no_grad():
        # torch has the gates in the same order, its matrices transposed, and a second bias.
        theirs.weight_ih_l0.copy_(torch.tensor(weights["p.lstm.weight_x"].T))
        theirs.weight_hh_l0.copy_(torch.tensor(weights["p.lstm.weight_h"].T))
        theirs.bias_ih_l0.copy_(torch.tensor(weights["p.lstm.bias"]))
        theirs.bias_hh_l0.zero_()
    rng = np.random.default_rng(2)
    x = rng.standard_normal((steps, rows, inputs)).astype(np.float32)
    output, cell = rng.standard_normal((2, rows, units)).astype(np.float32)
    with torch.no_grad():
        expected, (last_output, last_cell) = theirs(
            torch.tensor(x), (torch.tensor(output)[None], torch.tensor(cell)[None])
        )
    ours = LSTM(weights, "p.lstm")
    assert ours.units == units
    for step in range(steps):
        output, cell = ours(x[step], output, cell)
        np.testing.assert_allclose(output, expected[step].numpy(), atol=1e-6)
    np.testing.assert_allclose(output, last_output[0].numpy(), atol=1e-6)
    np.testing.assert_allclose(cell, last_cell[0].numpy(), atol=1e-6)
