from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlcore.errors import UserError
from rlcore.optim import SGD, Adam, RMSProp, UpdateRule, clip_by_global_norm, clip_factor, global_norm

RULES: list[UpdateRule] = [
    SGD(0.1),
    SGD(0.1, momentum=0.9),
    RMSProp(0.01),
    RMSProp(0.01, decay=0.9, epsilon=1e-5, momentum=0.5),
    Adam(0.003),
    Adam(0.003, beta1=0.5, beta2=0.9, epsilon=1e-5),
    Adam(0.003, max_grad_norm=0.5),
]


def torch_optimizer(torch: Any, rule: UpdateRule, parameters: list[Any]) -> Any:
    match rule:
        case SGD():
            return torch.optim.SGD(parameters, lr=rule.learning_rate, momentum=rule.momentum)
        case RMSProp():
            return torch.optim.RMSprop(
                parameters, lr=rule.learning_rate, alpha=rule.decay, eps=rule.epsilon, momentum=rule.momentum
            )
        case Adam():
            return torch.optim.Adam(parameters, lr=rule.learning_rate, betas=(rule.beta1, rule.beta2), eps=rule.epsilon)
    raise AssertionError(rule)


def some_weights(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {"policy.out.weight": (3, 2), "policy.out.bias": (2,), "log_alpha": ()}
    return {name: np.asarray(rng.normal(size=shape), np.float32) for name, shape in shapes.items()}


def run(rule: UpdateRule, weights: Any, state: Any, seeds: range) -> tuple[Any, Any]:
    for seed in seeds:
        weights, state = rule.update(weights, some_weights(seed), state)
    return weights, state


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_twenty_updates_equal_those_of_torch(rule: UpdateRule) -> None:
    torch = pytest.importorskip("torch")
    weights = some_weights(0)
    parameters = {name: torch.nn.Parameter(torch.tensor(array)) for name, array in weights.items()}
    optimizer = torch_optimizer(torch, rule, list(parameters.values()))
    for seed in range(1, 21):
        for name, gradient in some_weights(seed).items():
            parameters[name].grad = torch.tensor(gradient)
        if rule.max_grad_norm is not None:
            torch.nn.utils.clip_grad_norm_(list(parameters.values()), rule.max_grad_norm)
        optimizer.step()
    weights, state = run(rule, weights, rule.init(weights), range(1, 21))
    assert state["step"] == 20
    for name, parameter in parameters.items():
        np.testing.assert_allclose(weights[name], parameter.detach().numpy(), rtol=1e-6, atol=1e-6)


def two_updates(rule: UpdateRule, first: float, second: float) -> list[float]:
    weights: Any = {"w": np.array([1.0])}
    state = rule.init(weights)
    seen = []
    for gradient in (first, second):
        weights, state = rule.update(weights, {"w": np.array([gradient])}, state)
        seen.append(float(weights["w"][0]))
    return seen


def test_literal_numbers() -> None:
    np.testing.assert_allclose(two_updates(SGD(0.1), 2.0, 1.0), [0.8, 0.7])
    np.testing.assert_allclose(two_updates(SGD(0.1, momentum=0.5), 2.0, 1.0), [0.8, 0.6])
    # s = 0.1 * 4 = 0.4, then 0.36 + 0.1 = 0.46
    np.testing.assert_allclose(
        two_updates(RMSProp(0.1, decay=0.9, epsilon=0.0), 2.0, 1.0), [0.683772234, 0.536330278], rtol=1e-8
    )
    # The first step of Adam is the learning rate; then m = 0.28 / 0.19 and v = 0.004996 / 0.001999.
    np.testing.assert_allclose(two_updates(Adam(0.1, epsilon=0.0), 2.0, 1.0), [0.9, 0.806782], atol=1e-6)


def test_clipping_scales_all_gradients_together() -> None:
    gradients = {"a": np.array([3.0, 0.0], np.float32), "b": np.array([[4.0]], np.float32)}
    clipped, norm = clip_by_global_norm(gradients, 1.0)
    assert norm == 5.0 == global_norm(gradients)
    np.testing.assert_allclose(clipped["a"], [0.6, 0.0], rtol=1e-6)
    np.testing.assert_allclose(clipped["b"], [[0.8]], rtol=1e-6)
    assert clipped["a"].dtype == np.float32
    assert clip_by_global_norm(gradients, 5.1)[0]["a"] is gradients["a"]


def test_the_factor_of_clipping() -> None:
    assert clip_factor(3.0, 1.5) == 1.5 / (3.0 + 1e-6)
    assert clip_factor(1.5, 1.5) == 1.5 / (1.5 + 1e-6)
    assert clip_factor(1.4999989, 1.5) == 1.0
    assert clip_factor(0.0, 1.5) == 1.0


def test_a_large_norm_does_not_overflow() -> None:
    clipped, norm = clip_by_global_norm({"a": np.full(4, 1e30, np.float32)}, 2.0)
    assert norm == pytest.approx(2e30, rel=1e-6)
    np.testing.assert_allclose(clipped["a"], 1.0, rtol=1e-6)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_B076_a_saved_state_goes_on_bit_by_bit(rule: UpdateRule) -> None:
    weights = some_weights(0)
    weights, state = run(rule, weights, rule.init(weights), range(1, 11))
    saved = pickle.dumps((weights, state))
    first, _ = run(rule, weights, state, range(11, 12))
    second, _ = run(rule, *pickle.loads(saved), range(11, 12))
    for name in first:
        assert first[name].tobytes() == second[name].tobytes()


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_updates_are_pure_and_keep_dtypes(rule: UpdateRule) -> None:
    weights, gradients = some_weights(0), some_weights(1)
    state = rule.update(weights, gradients, rule.init(weights))[1]
    before = pickle.dumps((weights, gradients, state))
    new_weights, new_state = rule.update(weights, gradients, state)
    assert pickle.dumps((weights, gradients, state)) == before
    for name, array in new_weights.items():
        assert isinstance(array, np.ndarray) and array.dtype == np.float32 and array.shape == weights[name].shape
        for slot in rule.slots():
            assert new_state[slot][name].dtype == np.float32 and new_state[slot][name].shape == array.shape


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_read_only_arrays_give_what_others_do(rule: UpdateRule) -> None:
    weights, gradients = some_weights(0), some_weights(1)
    expected, state = rule.update(weights, gradients, rule.init(weights))
    expected, state = rule.update(expected, gradients, state)
    frozen = rule.init(weights)
    for array in (*weights.values(), *gradients.values()):
        array.flags.writeable = False
    for _ in range(2):
        weights, frozen = rule.update(weights, gradients, frozen)
        for array in (*weights.values(), *(a for slot in rule.slots() for a in frozen[slot].values())):
            array.flags.writeable = False
    for name, array in expected.items():
        assert array.tobytes() == weights[name].tobytes()
        for slot in rule.slots():
            assert state[slot][name].tobytes() == frozen[slot][name].tobytes()


def test_a_schedule_gives_the_learning_rate() -> None:
    weights = {"w": np.array([1.0])}
    rule = SGD(0.1)
    moved, _ = rule.update(weights, {"w": np.array([1.0])}, rule.init(weights), learning_rate=0.5)
    assert moved["w"].tolist() == [0.5]


def test_shards_with_a_clipped_whole_move_like_the_whole() -> None:
    rule = Adam(0.01, max_grad_norm=0.5)
    weights, gradients = some_weights(0), some_weights(1)
    whole, _ = rule.update(weights, gradients, rule.init(weights))
    clipped, _ = clip_by_global_norm(gradients, 0.5)
    shard_rule = replace(rule, max_grad_norm=None)
    for name in weights:
        part = {name: weights[name]}
        moved, _ = shard_rule.update(part, {name: clipped[name]}, shard_rule.init(part))
        assert moved[name].tobytes() == whole[name].tobytes()


def test_weights_without_a_gradient_stay() -> None:
    weights = some_weights(0)
    rule = Adam(0.1)
    moved, _ = rule.update(weights, {"log_alpha": np.float32(1.0).reshape(())}, rule.init(weights))
    assert moved["policy.out.bias"] is weights["policy.out.bias"]
    assert moved["log_alpha"] != weights["log_alpha"]


def test_gradients_that_fit_no_weight_are_refused() -> None:
    weights = {"w": np.zeros(2, np.float32)}
    rule = SGD(0.1)
    with pytest.raises(UserError, match="unknown weights v"):
        rule.update(weights, {"v": np.zeros(2, np.float32)}, rule.init(weights))
    with pytest.raises(UserError, match=r"'w' has shape \(3,\), expected \(2,\)"):
        rule.update(weights, {"w": np.zeros(3, np.float32)}, rule.init(weights))
