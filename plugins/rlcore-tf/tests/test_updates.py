"""Updates in one go and one by one, on one device and on several; nothing is traced twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlcore.errors import UserError
from rlcore.optim import SGD, Adam, RMSProp, UpdateRule
from rlcore.policy_graph import Progress
from rlcore_tf import A3C, APPO, IMPALA, PPO, PolicyGradient
from rlcore_tf.backend import tf
from rlcore_tf.optimizers import optimizer_for
from rlcore_tf.parameters import FlatParameters

Build = Callable[..., Any]
GRAPHS = [PolicyGradient, A3C, PPO, IMPALA, APPO]
each_graph = pytest.mark.parametrize("graph", GRAPHS)


def minibatches(own: Any, batch: Any, seed: int = 0) -> list[Any]:
    """Of different sizes."""
    units = np.random.default_rng(seed).permutation(own.minibatch_unit.count(batch))
    return [*np.array_split(units, 3), units[:1], units]


def assert_same(one: Any, other: Any) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert np.array_equal(one[name], other[name]), name


def assert_close(one: Any, other: Any) -> None:
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-5, atol=1e-6, err_msg=name)


@each_graph
@pytest.mark.parametrize("model", [{}, {"lstm": 4}], ids=["dense", "lstm"])
def test_many_updates_in_one_go_are_those_one_by_one(build: Build, sample: Any, graph: Any, model: Any) -> None:
    one, other = (build(graph, model={"hidden": [8], **model}) for _ in range(2))
    batch = sample(one)
    units = minibatches(one, batch)
    singly = [one.learn(batch, own) for own in units]
    together = list(other.learn_in_turn(other.pin(batch), iter(units)))
    assert singly == together
    assert [output.rows for output in together] == [int(one.minibatch_unit.rows(batch)[own].sum()) for own in units]
    state, expected = other.get_state(), one.get_state()
    assert_same(state["weights"], expected["weights"])
    assert state["optimizer"]["step"] == expected["optimizer"]["step"] == len(units)


@each_graph
@pytest.mark.parametrize("model", [{}, {"lstm": 4}], ids=["dense", "lstm"])
def test_nothing_is_traced_twice(build: Build, sample: Any, graph: Any, model: Any) -> None:
    own = build(graph, model={"hidden": [8], **model}, learning_rate=[[0, 1e-3], [100, 0.0]], entropy_coeff=0.01)

    def everything(steps: int) -> None:
        batch = sample(own, steps)
        own.log_probs(batch)
        own.learn(batch)
        list(own.learn_in_turn(own.pin(batch), minibatches(own, batch, steps)))
        own.apply_gradients(own.gradients(batch).gradients)
        own.on_progress(Progress(env_steps=10 * steps, stats={"kl": 0.1}))

    everything(4)
    before = own.traces
    assert before <= 7
    for steps in (1, 2, 7, 20):
        everything(steps)
    assert own.traces == before


@each_graph
@pytest.mark.parametrize("model", [{}, {"lstm": 4}], ids=["dense", "lstm"])
def test_several_devices_learn_what_one_learns(build: Build, sample: Any, graph: Any, model: Any) -> None:
    # With one normalisation by device V-trace's advantages are others.
    settings = {"normalize_advantages": False} if graph is APPO else {}
    one = build(graph, model={"hidden": [8], **model}, **settings)
    three = build(graph, model={"hidden": [8], **model}, devices=("cpu",) * 3, **settings)
    batch = sample(one, envs=7)
    found, expected = three.gradients(batch), one.gradients(batch)
    assert found.count == expected.count == len(batch)
    assert found.stats == pytest.approx(expected.stats, rel=1e-5, abs=1e-6)
    assert_close(found.gradients, expected.gradients)
    # Not every device has a unit of each of these.
    for units in minibatches(one, batch):
        assert three.learn(batch, units).rows == one.learn(batch, units).rows
    assert_close(three.get_weights(), one.get_weights())


def test_an_update_that_asks_for_it_is_the_last(build: Build, sample: Any) -> None:
    own = build(PPO, target_kl=1e-4, learning_rate=0.1)
    batch = sample(own)
    outputs = []
    for output in own.learn_in_turn(own.pin(batch), [np.arange(len(batch))] * 10):
        outputs.append(output)
        if output.stop:
            break
    # The first finds no divergence, as the policy is the one that acted.
    assert 2 <= len(outputs) < 10
    assert [output.stop for output in outputs] == [False] * (len(outputs) - 1) + [True]
    assert own.get_state()["optimizer"]["step"] == len(outputs)


def test_B115_an_update_that_is_not_finite_is_skipped_among_others(build: Build, sample: Any) -> None:
    one, other = build(A3C), build(A3C)
    batch = sample(one)
    poisoned = batch["advantages"].copy()
    poisoned[5] = np.nan
    units = [np.arange(4), np.arange(4, 8), np.arange(8, 12)]
    found = list(one.learn_in_turn(one.pin(batch.with_rows(advantages=poisoned)), units))
    assert [output.skipped for output in found] == [False, True, False]
    for own in (units[0], units[2]):
        other.learn(batch, own)
    assert_same(one.get_weights(), other.get_weights())
    assert_same(one.get_state()["optimizer"]["square"], other.get_state()["optimizer"]["square"])


def test_more_updates_than_are_made_in_one_go(build: Build, sample: Any) -> None:
    own = build(A3C)
    batch = sample(own)
    waiting = iter([np.arange(len(batch))] * 150)
    outputs = own.learn_in_turn(own.pin(batch), waiting)
    next(outputs)
    assert sum(1 for _ in waiting) == 150 - own.updates_at_once
    assert sum(1 for _ in outputs) == own.updates_at_once - 1


def test_an_empty_minibatch_is_refused(build: Build, sample: Any) -> None:
    own = build(A3C)
    batch = sample(own)
    with pytest.raises(UserError, match="no sample"):
        list(own.learn_in_turn(own.pin(batch), [np.arange(2), np.zeros(0, np.int64)]))


@pytest.mark.parametrize(
    "rule",
    [
        SGD(0.1),
        SGD(0.1, momentum=0.9),
        RMSProp(0.01),
        RMSProp(0.01, momentum=0.5, decay=0.8, epsilon=1e-3),
        Adam(0.01),
        Adam(0.01, beta1=0.5, beta2=0.7, epsilon=1e-2),
    ],
    ids=repr,
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_update_rules_are_the_kernels(rule: UpdateRule, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    weights = {"one": rng.standard_normal((2, 3)).astype(dtype), "number": np.asarray(1.5, dtype)}
    parameters = FlatParameters({name: w.shape for name, w in weights.items()}, "/CPU:0", tf.as_dtype(dtype))
    parameters.write(parameters.variable, weights)
    optimizer, state = optimizer_for(rule, parameters), rule.init(weights)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    for number in range(1, 6):
        gradients = {name: rng.standard_normal(w.shape).astype(dtype) for name, w in weights.items()}
        weights, state = rule.update(weights, gradients, state)
        rates, steps = (tf.constant([own], tf.float64) for own in (rule.learning_rate, number))
        optimizer.step(tf.constant(parameters.flat(gradients)), rates, steps)
        optimizer.count([True])
        for name, array in parameters.arrays(parameters.variable).items():
            np.testing.assert_allclose(array, weights[name], rtol=tolerance, atol=tolerance)
    found = optimizer.get_state()
    assert found.keys() == state.keys() and found["step"] == 5
    for slot in rule.slots():
        for name, array in found[slot].items():
            np.testing.assert_allclose(array, state[slot][name], rtol=tolerance * 10, atol=tolerance)
    optimizer.set_state({**state, "step": 9})
    assert optimizer.counts == [9]


def test_rules_that_there_is_no_form_of() -> None:
    with pytest.raises(TypeError, match="str is none of Adam"):
        optimizer_for("adam", FlatParameters({"one": (1,)}, "/CPU:0", tf.float32))  # type: ignore[arg-type]
