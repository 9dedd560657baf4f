"""Large weights are updated block after block, which gives the bits of an update of the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlcore.optim import BLOCK, SGD, Adam, RMSProp, UpdateRule

RULES = [SGD(0.1), SGD(0.1, momentum=0.9), RMSProp(0.1, momentum=0.5), Adam(0.1)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{type(rule).__name__}{getattr(rule, 'momentum', '')}")
@pytest.mark.parametrize("shape", [(), (0,), (1,), (BLOCK,), (BLOCK + 1,), (3, BLOCK - 1)])
def test_the_bits_are_those_of_the_whole(rule: UpdateRule, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    weights = {"w": np.asarray(rng.standard_normal(shape), np.float32)}
    state = rule.init(weights)
    for step in (1, 2):
        gradient = np.asarray(rng.standard_normal(shape), np.float32)
        change, memory = rule.change(gradient, {slot: state[slot]["w"] for slot in rule.slots()}, step, 0.1)
        before = weights["w"].copy()
        moved, kept = rule.update(weights, {"w": gradient}, state)
        np.testing.assert_array_equal(moved["w"], before - change)
        np.testing.assert_array_equal(weights["w"], before)
        assert moved["w"].dtype == np.float32 and moved["w"].shape == shape
        for slot, own in memory.items():
            np.testing.assert_array_equal(kept[slot]["w"], own)
        weights, state = moved, kept


def test_weights_may_lie_in_any_order() -> None:
    rng = np.random.default_rng(2)
    gradient = rng.standard_normal((300, 400)).astype(np.float32)
    weights: dict[str, Any] = {"w": np.asfortranarray(rng.standard_normal((300, 400)).astype(np.float32))}
    moved, _ = SGD(0.5).update(weights, {"w": gradient}, SGD(0.5).init(weights))
    np.testing.assert_array_equal(moved["w"], weights["w"] - np.float32(0.5) * gradient)
