"""Off-policy graphs: minibatches in one go and one by one, targets that wait, several devices, what is traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlcore.batch import SampleBatch
from rlcore.policy_graph import Progress
from rlcore.returns import as_transitions
from rlcore_tf import DDPG, DQN, SAC, TD3

Build = Callable[..., Any]
BOX = gymnasium.spaces.Box(np.array([0, -3], np.float32), np.array([10, 1], np.float32))
DISCRETE = gymnasium.spaces.Discrete(3, start=5)
#: Graph, actions, settings.
CASES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "dqn": (DQN, DISCRETE, {"tau": 0.1}),
    "dqn_hard": (DQN, DISCRETE, {"target_update_every": 10}),
    "dqn_noisy": (DQN, DISCRETE, {"noisy": 0.5, "dueling": True}),
    "ddpg": (DDPG, BOX, {}),
    "td3": (TD3, BOX, {"policy_learning_rate": 1e-2}),
    "sac": (SAC, BOX, {"max_grad_norm": 1.0}),
    "sac_discrete": (SAC, DISCRETE, {}),
}
each_case = pytest.mark.parametrize("case", CASES)


def made(build: Build, case: str, **more: Any) -> Any:
    graph, actions, settings = CASES[case]
    return build(graph, actions, **settings, **more)


def transitions(own: Any, sample: Any, steps: int = 6, seed: int = 0) -> SampleBatch:
    """Four for each step."""
    return as_transitions(sample(own, steps, 4, seed))


def assert_same(one: Any, other: Any) -> None:
    """States, number by number."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name, value in one.items():
            assert_same(value, other[name])
    elif isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other


def learn_and_note(own: Any, outputs: Any, updates: int = 0) -> int:
    """As a Learner does; the number of updates so far."""
    for output in outputs:
        updates += not output.skipped
        own.on_progress(Progress(env_steps=0, updates=updates))
    return updates


@each_case
def test_minibatches_in_one_go_are_those_one_by_one(build: Build, sample: Any, case: str) -> None:
    together, apart = (made(build, case) for _ in range(2))
    batch = transitions(together, sample)
    made_so_far = [0, 0]
    for _ in range(2):
        parts = [batch.take_pieces(range(first, first + 8)) for first in (0, 8, 16)]
        made_so_far[0] = learn_and_note(together, together.learn_minibatches(batch, 3), made_so_far[0])
        made_so_far[1] = learn_and_note(apart, (apart.learn(part) for part in parts), made_so_far[1])
    assert made_so_far == [6, 6]
    assert_same(together.get_state(), apart.get_state())


@each_case
def test_what_is_not_finite_is_skipped_and_the_others_go_on(build: Build, sample: Any, case: str) -> None:
    together, apart = (made(build, case) for _ in range(2))
    batch = transitions(together, sample)
    rewards = batch["rewards"].copy()
    rewards[9] = np.nan
    batch = batch.with_rows(rewards=rewards)
    parts = [batch.take_pieces(range(first, first + 8)) for first in (0, 8, 16)]
    outputs = list(together.learn_minibatches(batch, 3))
    assert [output.skipped for output in outputs] == [False, True, False]
    learn_and_note(together, outputs)
    assert learn_and_note(apart, (apart.learn(part) for part in parts)) == 2
    assert_same(together.get_state(), apart.get_state())


@each_case
def test_it_goes_on_where_it_was(build: Build, sample: Any, case: str) -> None:
    one, other = made(build, case), made(build, case, seed=1)
    batch = transitions(one, sample)
    updates = learn_and_note(one, one.learn_minibatches(batch, 3))
    other.set_state(one.get_state())
    for own in (one, other):
        learn_and_note(own, own.learn_minibatches(batch, 2), updates)
    assert_same(one.get_state(), other.get_state())


@each_case
def test_gradients_and_their_application_are_an_update(build: Build, sample: Any, case: str) -> None:
    one, other = (made(build, case) for _ in range(2))
    batch = transitions(one, sample)
    for i in range(4):
        one.learn(batch)
        other.apply_gradients(other.gradients(batch).gradients)
        for own in (one, other):
            own.on_progress(Progress(env_steps=0, updates=i + 1))
    for name, array in one.get_weights().items():
        np.testing.assert_allclose(array, other.get_weights()[name], rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("case", ["dqn_noisy", "td3", "sac"])
def test_two_devices_learn_as_one(build: Build, sample: Any, case: str) -> None:
    one, two = made(build, case), made(build, case, devices=("cpu", "cpu"))
    batch = transitions(one, sample)
    for own in (one, two):
        learn_and_note(own, own.learn_minibatches(batch, 3))
    errors = [own.learn(batch, np.array([1, 20, 3, 9])).td_error for own in (one, two)]
    np.testing.assert_allclose(errors[0], errors[1], rtol=1e-4, atol=1e-5)
    for name, array in one.get_weights().items():
        np.testing.assert_allclose(array, two.get_weights()[name], rtol=0, atol=1e-5, err_msg=name)


def test_several_devices_have_the_errors_of_all_rows_of_sequences(build: Build, sample: Any) -> None:
    settings = {"model": {"hidden": [8], "lstm": 4}, "burn_in": 1}
    one, two = (build(DQN, devices=devices, **settings) for devices in (("cpu",), ("cpu", "cpu")))
    batch = sample(one, 6, 4)
    units = np.random.default_rng(0).permutation(batch.pieces)
    for chosen in (None, units):
        errors = [own.gradients(batch, chosen).td_error for own in (one, two)]
        assert len(errors[0]) == len(batch)
        np.testing.assert_allclose(errors[0], errors[1], rtol=1e-5, atol=1e-6)


@each_case
def test_nothing_is_traced_anew(build: Build, sample: Any, case: str) -> None:
    own = made(build, case)

    def everything(steps: int) -> None:
        batch = transitions(own, sample, steps, steps)
        own.learn(batch)
        list(own.learn_minibatches(batch, 4))
        list(own.learn_minibatches(batch, 2))
        own.apply_gradients(own.gradients(batch).gradients)
        own.on_progress(Progress(env_steps=10 * steps, updates=steps))
        own.get_weights()
        own.act(batch.obs, explore=False, rng=np.random.default_rng(0))

    everything(2)
    before = own.traces
    for steps in (1, 5, 3):
        everything(steps)
    assert own.traces == before <= 8


def test_soft_targets_move_when_they_are_told_of_updates(build: Build, sample: Any) -> None:
    own = build(DQN, tau=0.5, learning_rate=0.1)
    batch = transitions(own, sample)
    start = own.get_weights()["q.out.weight"]
    own.learn(batch)
    found = own.get_weights()
    np.testing.assert_array_equal(found["target_q.out.weight"], start)
    own.on_progress(Progress(updates=1))
    half = 0.5 * (start + found["q.out.weight"])
    np.testing.assert_allclose(own.get_weights()["target_q.out.weight"], half, rtol=1e-6, atol=1e-8)
    own.utilities()["update_target"]()
    np.testing.assert_array_equal(own.get_weights()["target_q.out.weight"], found["q.out.weight"])
