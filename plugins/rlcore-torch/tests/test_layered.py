"""Encoders, hidden layers and LSTMs against networks that are written here with torch.nn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from torch import Tensor, nn

from rlcore.acting import Architecture, ModelConfig
from rlcore.acting.convolutions import impala, nature
from rlcore.acting.images import image_of
from rlcore_torch.layered import LayeredModel
from rlcore_torch.model import Heads
from rlcore_torch.sequences import with_state

Build = Callable[..., Any]
DISCRETE = Discrete(3)
VECTOR = Box(-1.0, 1.0, (4,), np.float32)


def pixels(*shape: int) -> Box:
    return Box(0, 255, shape, np.uint8)


def layered(space: gymnasium.Space[Any], **model: Any) -> LayeredModel:
    config = ModelConfig(**model)
    return LayeredModel(space, config, Architecture.of(space, DISCRETE, config))


def drawn(model: LayeredModel, seed: int = 0, size: float = 0.2) -> dict[str, Any]:
    """Weights that are nowhere zero."""
    rng = np.random.default_rng(seed)
    return {name: (size * rng.standard_normal(shape)).astype(np.float32) for name, shape in model.shapes.items()}


def leaves_of(model: LayeredModel, weights: dict[str, Any], dtype: torch.dtype = torch.float32) -> list[Tensor]:
    arrays = [weights[leaf.names[0]].transpose(leaf.axes or tuple(range(len(leaf.shape)))) for leaf in model.layout]
    return [torch.tensor(array.copy(), dtype=dtype, requires_grad=True) for array in arrays]


def heads(model: LayeredModel, weights: dict[str, Any], obs: Any) -> Heads:
    inputs = {name: torch.tensor(column) for name, column in model.columns(obs).items()}
    with torch.no_grad():
        return model(leaves_of(model, weights), inputs)


def take_in(module: nn.Module, name: str, weights: dict[str, Any]) -> None:
    """Canonical weights, ``[in, out]`` or ``[height, width, in, out]``, into a layer of torch."""
    weight = torch.tensor(weights[f"{name}.weight"])
    module.weight.data = weight.permute(3, 2, 0, 1) if weight.ndim == 4 else weight.T  # type: ignore[union-attr]
    module.bias.data = torch.tensor(weights[f"{name}.bias"])


def linear(name: str, weights: dict[str, Any]) -> nn.Linear:
    layer = nn.Linear(*weights[f"{name}.weight"].shape)
    take_in(layer, name, weights)
    return layer


class Last(nn.Module):
    """Channels last, then flat."""

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(0, 2, 3, 1).flatten(1)


def nature_stack(channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, 32, 8, stride=4),
        nn.ReLU(),
        nn.Conv2d(32, 64, 4, stride=2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=1),
        nn.ReLU(),
        Last(),
    )


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv_0 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv_1 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv_0(torch.relu(x))
        return x + self.conv_1(torch.relu(y))


class Impala(nn.Module):
    """Espeholt et al. 2018, figure 3, right, up to the fully connected layer."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.stages = nn.ModuleList()
        for out in (16, 32, 32):
            parts = {"conv": nn.Conv2d(channels, out, 3, padding=1), "pool": nn.MaxPool2d(3, stride=2, padding=1)}
            self.stages.append(nn.ModuleDict({**parts, "block_0": Residual(out), "block_1": Residual(out)}))
            channels = out

    def forward(self, x: Tensor) -> Tensor:
        for stage in self.stages:
            for name in ("conv", "pool", "block_0", "block_1"):
                x = stage[name](x)  # type: ignore[index]
        return Last()(torch.relu(x))  # type: ignore[no-any-return]

    def take_in(self, name: str, weights: dict[str, Any]) -> None:
        for i, stage in enumerate(self.stages):
            take_in(stage["conv"], f"{name}.stage_{i}.conv", weights)  # type: ignore[index]
            for block in ("block_0", "block_1"):
                for conv in ("conv_0", "conv_1"):
                    layer = getattr(stage[block], conv)  # type: ignore[index]
                    take_in(layer, f"{name}.stage_{i}.{block}.{conv}", weights)


@pytest.mark.parametrize("shape", [(36, 36, 3), (36, 44, 1), (4, 84, 84), (52, 37, 3), (2, 40, 36, 3)], ids=str)
def test_nature_puts_out_as_many_numbers_as_torch(shape: tuple[int, ...]) -> None:
    image = image_of(pixels(*shape))
    assert image is not None
    with torch.no_grad():
        found = nature_stack(image.channels)(torch.zeros(1, image.channels, image.height, image.width))
    assert found.shape == (1, nature(image).outputs)


@pytest.mark.parametrize("shape", [(9, 9, 3), (5, 8, 1), (1, 1, 1), (3, 17, 16), (2, 3, 6, 7)], ids=str)
def test_impala_puts_out_as_many_numbers_as_torch(shape: tuple[int, ...]) -> None:
    image = image_of(pixels(*shape))
    assert image is not None
    with torch.no_grad():
        found = Impala(image.channels)(torch.zeros(1, image.channels, image.height, image.width))
    assert found.shape == (1, impala(image).outputs)


def images(*shape: int, rows: int = 3, seed: int = 1) -> Any:
    return np.random.default_rng(seed).integers(0, 256, (rows, *shape), np.uint8)


@pytest.mark.parametrize("channels_first", [False, True])
def test_nature_equals_the_same_network_in_torch(channels_first: bool) -> None:
    obs = images(36, 44, 3)
    space = pixels(3, 36, 44) if channels_first else pixels(36, 44, 3)
    model = layered(space, hidden=(5,), shared_value=False)
    weights = drawn(model, size=0.1)
    found = heads(model, weights, obs.transpose(0, 3, 1, 2) if channels_first else obs)
    for name, output in (("policy", found.policy), ("value", found.values)):
        stack = nature_stack(3)
        for i in range(3):
            take_in(stack[2 * i], f"{name}.image.conv_{i}", weights)
        with torch.no_grad():
            features = stack(torch.tensor(obs.transpose(0, 3, 1, 2)).float() / 255)
            hidden = torch.relu(linear(f"{name}.hidden_0", weights)(features))
            expected = linear(f"{name}.out", weights)(hidden)
        assert output is not None
        torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-6)


def test_impala_equals_the_same_network_in_torch() -> None:
    obs = images(11, 9, 2)
    model = layered(pixels(11, 9, 2), encoder="impala", hidden=(), shared_value=True)
    weights = drawn(model)
    found = heads(model, weights, obs)
    network = Impala(2)
    network.take_in("shared.image", weights)
    with torch.no_grad():
        features = network(torch.tensor(obs.transpose(0, 3, 1, 2)).float() / 255)
        assert features.abs().max() > 0
        expected = linear("policy.out", weights)(features), linear("value.out", weights)(features)
    assert found.values is not None
    torch.testing.assert_close(found.policy, expected[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.values, expected[1], rtol=1e-4, atol=1e-5)


def test_a_stack_of_images_is_read_as_more_channels() -> None:
    obs = images(2, 36, 36, 3)
    stacked, flat = layered(pixels(2, 36, 36, 3), hidden=(4,)), layered(pixels(36, 36, 6), hidden=(4,))
    weights = drawn(flat)
    expected = heads(flat, weights, np.concatenate([obs[:, 0], obs[:, 1]], axis=-1))
    assert torch.equal(heads(stacked, weights, obs).policy, expected.policy)


def test_parts_that_are_no_images_go_past_the_convolutions() -> None:
    space = Dict({"eye": pixels(9, 9, 3), "kind": Discrete(2), "place": VECTOR, "action_mask": MultiBinary(3)})
    model = layered(space, encoder="impala", hidden=(), shared_value=True)
    weights = drawn(model)
    place = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    obs = {"eye": images(9, 9, 3), "kind": np.array([0, 1, 1]), "place": place}
    found = heads(model, weights, {**obs, "action_mask": np.ones((3, 3), np.int8)})
    network = Impala(3)
    network.take_in("shared.image.eye", weights)
    with torch.no_grad():
        features = network(torch.tensor(obs["eye"]).permute(0, 3, 1, 2).float() / 255)
        one_hot = torch.tensor(np.eye(2, dtype=np.float32)[obs["kind"]])
        expected = linear("policy.out", weights)(torch.cat([one_hot, torch.tensor(place), features], 1))
    torch.testing.assert_close(found.policy, expected, rtol=1e-4, atol=1e-5)


def columns_of(space: Box, obs: Any, **model: Any) -> Tensor:
    """The pixels ``[n, channels, height, width]`` that the convolutions see."""
    own = layered(space, encoder="impala", **model)
    columns = {name: torch.tensor(column) for name, column in own.columns(obs).items()}
    return own.body.read(columns)["image"]


def test_B099_images_are_scaled_once() -> None:
    white = np.full((1, 5, 5, 3), 255, np.uint8)
    assert (columns_of(pixels(5, 5, 3), white) == 1.0).all()
    # One that is in [0, 1] already is left alone,
    unit = Box(0.0, 1.0, (5, 5, 3), np.float32)
    assert (columns_of(unit, np.ones((1, 5, 5, 3), np.float32)) == 1.0).all()
    # and so are others, unless they are to be scaled.
    large = Box(0.0, 255.0, (5, 5, 3), np.float32)
    assert (columns_of(large, white.astype(np.float32)) == 255.0).all()
    assert (columns_of(large, white.astype(np.float32), scale={"obs": True}) == 1.0).all()
    assert (columns_of(pixels(5, 5, 3), white, scale={"obs": False}) == 255.0).all()


def test_bounds_other_than_zero_are_mapped_to_zero_and_one() -> None:
    space = Box(-1.0, 3.0, (5, 5, 3), np.float32)
    obs = np.full((1, 5, 5, 3), 2.0, np.float32)
    assert (columns_of(space, obs, scale={"obs": True}) == 0.75).all()


@pytest.mark.parametrize("channels_first", [False, True])
def test_every_pixel_may_have_bounds_of_its_own(channels_first: bool) -> None:
    rng = np.random.default_rng(0)
    low = rng.uniform(-2, 0, (5, 6, 3)).astype(np.float32)
    high = rng.uniform(1, 3, (5, 6, 3)).astype(np.float32)
    obs = rng.uniform(low, high, (2, 5, 6, 3)).astype(np.float32)
    expected = ((obs - low) / (high - low)).transpose(0, 3, 1, 2)
    if channels_first:
        low, high, obs = low.transpose(2, 0, 1), high.transpose(2, 0, 1), obs.transpose(0, 3, 1, 2)
    found = columns_of(Box(low, high, dtype=np.float32), obs, scale={"obs": True})
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "model"),
    [
        ((36, 36, 1), {"encoder": "nature", "hidden": (3,), "activation": "tanh"}),
        ((5, 6, 2), {"encoder": "impala", "hidden": (3,)}),
        ((5, 6, 2), {"encoder": "impala", "hidden": (3,), "lstm": 2, "shared_value": False}),
    ],
    ids=["nature", "impala", "impala with an LSTM"],
)
def test_gradients_of_encoders_by_finite_differences(shape: tuple[int, ...], model: dict[str, Any]) -> None:
    space = pixels(*shape)
    own = layered(space, precision="float64", **model)
    leaves = leaves_of(own, drawn(own, size=0.3), torch.float64)
    inputs = {name: torch.tensor(column) for name, column in own.columns(images(*shape)).items()}
    if own.recurrent:
        rng = np.random.default_rng(2)
        state = tuple(rng.standard_normal((2, 2)) for _ in range(4))
        inputs = with_state(inputs, state, np.array([2, 1]))

    def outputs(*given: Tensor) -> tuple[Tensor, ...]:
        found = own(given, inputs)
        assert found.values is not None
        return (found.policy, found.values, *found.state)

    # By random directions: there are some hundred thousand weights.
    assert torch.autograd.gradcheck(outputs, tuple(leaves), fast_mode=True)


@pytest.mark.parametrize("shared", [False, True])
def test_gradients_of_lstms_by_finite_differences(shared: bool) -> None:
    own = layered(VECTOR, hidden=(3,), lstm=2, shared_value=shared)
    leaves = leaves_of(own, drawn(own, size=0.5), torch.float64)
    rng = np.random.default_rng(2)
    state = tuple(torch.tensor(rng.standard_normal((3, 2)), requires_grad=True) for _ in range(2 if shared else 4))
    rows = torch.tensor(rng.standard_normal((7, 4)))

    def outputs(*given: Tensor) -> tuple[Tensor, ...]:
        parts = {f"state_in.{i}": part for i, part in enumerate(given[len(leaves) :])}
        # Three pieces of four, two and one rows.
        found = own(given[: len(leaves)], {"obs": rows, **parts, "batch_sizes": torch.tensor([3, 2, 1, 1])})
        assert found.values is not None
        return (found.policy, found.values, *found.state)

    assert torch.autograd.gradcheck(outputs, (*leaves, *state))
