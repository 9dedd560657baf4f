"""Large products by oneDNN are those of torch's own layer, to rounding, in both passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from rlcore.batch import SampleBatch
from rlcore_torch import SAC
from rlcore_torch import dense as module
from rlcore_torch.dense import LARGE, dense

pytestmark = pytest.mark.skipif(module._product() is None, reason="this torch has no such kernel")
SIZES = [(128, 128, 128), (256, 256, 256), (512, 64, 96), (4096, 512, 1), (1, 1448, 1450)]


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape, np.float32))


def both(x: Tensor, weight: Tensor, bias: Tensor, gradient: Tensor) -> list[list[Tensor]]:
    """Outputs and gradients, by ``dense`` and by torch."""
    found = []
    for layer in (dense, functional.linear):
        leaves = [one.clone(memory_format=torch.preserve_format).requires_grad_() for one in (x, weight, bias)]
        outputs = layer(*leaves)
        found.append([outputs.detach(), *torch.autograd.grad(outputs, leaves, gradient)])
    return found


@pytest.mark.parametrize(("rows", "inputs", "outputs"), SIZES)
def test_both_passes_are_those_of_torch(rows: int, inputs: int, outputs: int) -> None:
    assert rows * inputs * outputs >= LARGE
    x, weight, bias = drawn(rows, inputs), drawn(outputs, inputs, seed=1), drawn(outputs, seed=2)
    own, theirs = both(x, weight, bias, drawn(rows, outputs, seed=3))
    for one, other in zip(own, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4 * max(rows, inputs, outputs) ** 0.5)


def test_strides_do_not_matter() -> None:
    x, weight = drawn(256, 512)[:, ::2].t(), drawn(300, 256, seed=1).t()[:, :256].t()
    own, theirs = both(x, weight, drawn(256, seed=2), drawn(256, 256, seed=3).t())
    for one, other in zip(own, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=2e-3)


def test_leaves_that_nobody_asks_for_cost_nothing() -> None:
    x, weight = drawn(256, 256).requires_grad_(), drawn(256, 256, seed=1)
    (gradient,) = torch.autograd.grad(dense(x, weight, torch.zeros(256)).sum(), [x])
    torch.testing.assert_close(gradient, weight.sum(0).expand(256, -1), rtol=1e-4, atol=1e-3)


def test_small_products_and_other_types_are_torchs_own() -> None:
    for x, weight in (
        (drawn(64, 128), drawn(128, 128, seed=1)),
        (drawn(256, 256).double(), drawn(256, 256, seed=1).double()),
        (drawn(4, 64, 256), drawn(256, 256, seed=1)),
    ):
        bias = torch.zeros(len(weight), dtype=x.dtype)
        assert torch.equal(dense(x, weight, bias), functional.linear(x, weight, bias))
    with torch.autocast("cpu", torch.bfloat16):
        assert dense(drawn(256, 256), drawn(256, 256), torch.zeros(256)).dtype == torch.bfloat16


def test_without_the_kernel_it_is_torchs_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_product", lambda: None)
    x, weight, bias = drawn(256, 256), drawn(256, 256, seed=1), drawn(256, seed=2)
    assert torch.equal(dense(x, weight, bias), functional.linear(x, weight, bias))


def test_wide_critics_learn_the_same_by_either(build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """And updates are recorded as those of narrow ones are."""
    rng, rows = np.random.default_rng(0), 256
    cuts = {"start": np.arange(rows), "length": np.ones(rows, np.int64)}
    cuts["last_obs"] = rng.standard_normal((rows, 4)).astype(np.float32)
    columns = {
        "obs": rng.standard_normal((rows, 4)).astype(np.float32),
        "actions": rng.uniform(-1.0, 1.0, (rows, 2)).astype(np.float32),
        "rewards": rng.standard_normal(rows).astype(np.float32),
        "discounts": np.full(rows, 0.99, np.float32),
        "steps": np.ones(rows, np.int32),
    }
    batch = SampleBatch(columns, cuts)
    space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    own, plain = (build(SAC, space, model={"hidden": (256, 256)}) for _ in range(2))
    for _ in range(3):
        found = own.learn(batch)
        with monkeypatch.context() as patch:
            patch.setattr(module, "_product", lambda: None)
            expected = plain.learn(batch)
        assert found.stats == pytest.approx(expected.stats, rel=1e-3, abs=1e-4)
    for name, array in plain.get_weights().items():
        np.testing.assert_allclose(own.get_weights()[name], array, rtol=0, atol=2e-4)
    for _ in range(30):
        own.learn(batch)
    assert own._backward_pass.differentiate.recorded == 1
