from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch

from rlcore.acting import MLP, Architecture, ModelConfig
from rlcore.batch import OBS
from rlcore.optim import SGD, Adam, RMSProp, UpdateRule
from rlcore_torch.optimizers import optimizer_for
from rlcore_torch.parameters import FlatParameters, Leaf, write
from rlcore_torch.twin_mlp import TwinMLP

OBSERVATIONS = gymnasium.spaces.Box(-1.0, 1.0, (4,), np.float32)
DISCRETE = gymnasium.spaces.Discrete(3, start=5)
BOX = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)


def test_canonical_weights_are_views_of_one_tensor() -> None:
    layout = [Leaf(("a", "b"), (2, 3), (2, 2, 3)), Leaf(("c",), (2, 3), (3, 2), (1, 0))]
    parameters = FlatParameters(layout)
    c = np.arange(6, dtype=np.float32).reshape(2, 3)
    write(parameters.weights, {"b": np.ones((2, 3), np.float32), "c": c})
    assert parameters.values.tolist() == [0.0] * 6 + [1.0] * 6 + [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
    assert parameters.leaves[0][1].tolist() == [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    (only,) = parameters.arrays(parameters.values, ["c"]).items()
    assert only[0] == "c"
    assert only[1].flags.c_contiguous and only[1].flags.owndata
    np.testing.assert_array_equal(only[1], c)
    arrays = parameters.arrays(parameters.values)
    np.testing.assert_array_equal(arrays["c"], c)
    assert all(array.flags.c_contiguous for array in arrays.values())


@pytest.mark.parametrize("hidden", [(), (8,), (8, 5)])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("value", [False, True])
def test_networks_equal_those_of_numpy(hidden: tuple[int, ...], activation: str, value: bool) -> None:
    config = ModelConfig(hidden=hidden, activation=activation)
    architecture = Architecture.of(OBSERVATIONS, BOX, config, value=value)
    model = TwinMLP(OBSERVATIONS, config, architecture)
    parameters = FlatParameters(model.layout)
    rng = np.random.default_rng(0)
    weights = architecture.init(rng, log_std=-0.5)
    assert set(parameters.weights) == set(weights)
    write(parameters.weights, weights)
    obs = rng.standard_normal((20, 4)).astype(np.float32) * 3.0
    with torch.no_grad():
        heads = model(parameters.leaves, {OBS: torch.tensor(obs)})
    np.testing.assert_allclose(heads.policy, MLP(weights, "policy", activation)(obs), atol=1e-5)
    assert heads.log_std is not None
    assert heads.log_std.tolist() == [-0.5, -0.5]
    if value:
        assert heads.values is not None
        np.testing.assert_allclose(heads.values, MLP(weights, "value", activation)(obs), atol=1e-5)
    else:
        assert heads.values is None


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_gradients_are_finite_differences(activation: str) -> None:
    config = ModelConfig(hidden=(3, 2), activation=activation)
    model = TwinMLP(OBSERVATIONS, config, Architecture.of(OBSERVATIONS, DISCRETE, config))
    generator = torch.Generator().manual_seed(0)
    leaves = [torch.randn(leaf.view, generator=generator, dtype=torch.float64) for leaf in model.layout]
    obs = torch.randn(5, 4, generator=generator, dtype=torch.float64)

    def outputs(*leaves: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        heads = model(leaves, {OBS: obs})
        assert heads.values is not None
        return heads.policy, heads.values

    assert torch.autograd.gradcheck(outputs, [leaf.requires_grad_() for leaf in leaves])


RULES = [
    Adam(0.01),
    Adam(0.003, beta1=0.8, beta2=0.99, epsilon=1e-5),
    RMSProp(0.01, epsilon=1e-5),
    RMSProp(0.01, momentum=0.9),
    SGD(0.1),
    SGD(0.1, momentum=0.9),
]


def refuses(*arguments: object, **named: object) -> None:
    raise NotImplementedError("not on this device")


@pytest.mark.parametrize("kernel", ["there", "refuses", "missing"])
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_optimizers_follow_their_rule(rule: UpdateRule, kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kernel == "missing":
        monkeypatch.delattr(torch, "_fused_adam_")
    elif kernel == "refuses":
        monkeypatch.setattr(torch, "_fused_adam_", refuses)
    parameters = FlatParameters([Leaf(("a", "b"), (2, 3), (2, 2, 3)), Leaf(("c",), (4,), (4,))])
    optimizer = optimizer_for(rule, parameters)
    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal(view.shape).astype(np.float32) for name, view in parameters.weights.items()}
    write(parameters.weights, weights)
    state = rule.init(weights)
    for _ in range(20):
        gradients = {name: rng.standard_normal(w.shape).astype(np.float32) for name, w in weights.items()}
        write(parameters.weight_gradients, gradients)
        optimizer.step(rule.learning_rate)
        weights, state = rule.update(weights, gradients, state)
    for name, array in parameters.arrays(parameters.values).items():
        np.testing.assert_allclose(array, weights[name], atol=1e-6)
    own = optimizer.get_state()
    assert own.keys() == state.keys()
    assert own["step"] == 20
    for slot in rule.slots():
        for name in weights:
            np.testing.assert_allclose(own[slot][name], state[slot][name], atol=1e-6)
