from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlcore.batch import SampleBatch
from rlcore.errors import ConfigError, SpaceError
from rlcore.graph_spec import GraphSpec
from rlcore.learner import Learner
from rlcore.policy_graph import PIECE, Progress
from rlcore.returns import as_transitions
from rlcore_torch import DQN

Build = Callable[..., Any]
LINE = gymnasium.spaces.Box(-10.0, 10.0, (1,), np.float32)
IMAGE = gymnasium.spaces.Box(0, 255, (36, 36, 1), np.uint8)
LINEAR: dict[str, Any] = {"model": {"hidden": []}, "max_grad_norm": None}


def transitions(weights: bool = True) -> SampleBatch:
    """From 1 by action 0 to 2 for a reward of 1; from 2 by action 1 to the end for -1."""
    rows: dict[str, Any] = {
        "obs": np.array([[1], [2]], np.float32),
        "actions": np.array([0, 1]),
        "rewards": np.array([1, -1], np.float32),
        "terminated": np.array([False, True]),
        "truncated": np.zeros(2, np.bool_),
        "t": np.array([0, 5], np.int32),
        "steps": np.ones(2, np.int32),
        "discounts": np.array([0.5, 0.0], np.float32),
    }
    if weights:
        rows["weights"] = np.array([1.0, 0.5], np.float32)
    cuts = {
        "start": np.arange(2),
        "length": np.ones(2, np.int64),
        "bootstrap": np.array([True, False]),
        "last_obs": np.array([[2], [5]], np.float32),
    }
    return SampleBatch(rows, cuts)


def linear(build: Build, **settings: Any) -> Any:
    """Q(s, a) = (s, 2 s), and that of the target (3 s, s)."""
    own = build(DQN, gymnasium.spaces.Discrete(2), observation_space=LINE, **{**LINEAR, **settings})
    zero = np.zeros(2, np.float32)
    own.set_weights({"q.out.weight": np.array([[1, 2]], np.float32), "q.out.bias": zero})
    own.set_weights({"target_q.out.weight": np.array([[3, 1]], np.float32), "target_q.out.bias": zero})
    return own


@pytest.mark.parametrize(
    ("settings", "errors", "loss", "weight", "bias"),
    [
        # The online network chooses action 1, worth 2 by the target: 1 + 2 / 2 against 1; and -1 against 4.
        ({}, [-1.0, 5.0], (0.5 + 0.5 * 4.5) / 2, [-0.5, 0.5], [-0.5, 0.25]),
        ({"huber_delta": None}, [-1.0, 5.0], (0.5 + 0.5 * 12.5) / 2, [-0.5, 2.5], [-0.5, 1.25]),
        # The target's own best is 6: 1 + 6 / 2 against 1.
        ({"double": False}, [-3.0, 5.0], (2.5 + 0.5 * 4.5) / 2, [-0.5, 0.5], [-0.5, 0.25]),
    ],
)
def test_one_update_by_hand(
    build: Build, settings: Any, errors: Any, loss: float, weight: Any, bias: Any
) -> None:
    own = linear(build, learning_rate=0.125, **settings)
    found = own.gradients(transitions())
    assert found.count == 2 and found.td_error.tolist() == errors
    assert found.stats["q_loss"] == found.stats["loss"] == loss and found.stats["q_mean"] == 2.5
    assert found.gradients["q.out.weight"].tolist() == [weight]
    assert found.gradients["q.out.bias"].tolist() == bias
    output = own.learn(transitions())
    assert output.td_error.tolist() == errors and output.rows == 2
    # The first step of Adam is as long as the learning rate, against the gradient.
    np.testing.assert_allclose(own.get_weights()["q.out.weight"], [[1.125, 1.875]], rtol=1e-6)
    assert own.get_weights()["target_q.out.weight"].tolist() == [[3.0, 1.0]]


def test_without_weights_all_rows_count_alike(build: Build) -> None:
    assert linear(build).gradients(transitions(weights=False)).stats["q_loss"] == (0.5 + 4.5) / 2


def test_rows_of_pieces_are_learnt_from_as_transitions(build: Build) -> None:
    own = build(DQN, gymnasium.spaces.Discrete(2), observation_space=LINE, n_step=2, gamma=0.5)
    batch = SampleBatch(
        {
            "obs": np.array([[1], [2], [3], [4]], np.float32),
            "actions": np.array([0, 1, 1, 0]),
            "rewards": np.arange(4).astype(np.float32),
            "terminated": np.zeros(4, np.bool_),
            "truncated": np.zeros(4, np.bool_),
            "t": np.arange(4, dtype=np.int32),
        },
        {
            "start": np.array([0]),
            "length": np.array([4]),
            "bootstrap": np.array([True]),
            "last_obs": np.array([[5]], np.float32),
        },
    )
    done = own.postprocess(batch)
    assert own.lookahead == 1 and done["discounts"].tolist() == [0.25, 0.25, 0.25, 0.5]
    whole, apart = own.gradients(done), own.gradients(as_transitions(done))
    for name, gradient in whole.gradients.items():
        np.testing.assert_allclose(gradient, apart.gradients[name], atol=1e-7)
    np.testing.assert_allclose(whole.td_error, apart.td_error, atol=1e-6)


def test_B119_the_target_shares_nothing_with_what_it_follows(build: Build) -> None:
    own = build(DQN, gymnasium.spaces.Discrete(3), observation_space=IMAGE, model={"hidden": [8]})
    weights = own.get_weights()
    online = {name for name in weights if name.startswith("q.")}
    assert {f"target_{name}" for name in online} == set(weights) - online
    assert own.acting == own.trainable == online
    assert all(np.array_equal(weights[name], weights[f"target_{name}"]) for name in online)
    rng = np.random.default_rng(0)
    batch = SampleBatch(
        {
            "obs": rng.integers(0, 255, (6, 36, 36, 1)).astype(np.uint8),
            "actions": rng.integers(0, 3, 6),
            "rewards": np.ones(6, np.float32),
            "terminated": np.zeros(6, np.bool_),
            "truncated": np.zeros(6, np.bool_),
        },
        {
            "start": np.array([0]),
            "length": np.array([6]),
            "bootstrap": np.array([True]),
            "last_obs": rng.integers(0, 255, (1, 36, 36, 1)).astype(np.uint8),
        },
    )
    assert own.actor() is None
    assert not own.learn(own.postprocess(batch)).skipped
    after = own.get_weights()
    assert all(np.array_equal(after[f"target_{name}"], weights[f"target_{name}"]) for name in online)
    assert any((after[name] != weights[name]).any() for name in online)
    own.call("update_target")
    copied = own.get_weights()
    assert all(np.array_equal(copied[f"target_{name}"], after[name]) for name in online)


def test_B120_targets_are_updated_by_environment_steps(build: Build) -> None:
    own = linear(build, target_update_every=10_000)
    spec = GraphSpec(DQN, LINE, gymnasium.spaces.Discrete(2), own.config, np.random.SeedSequence(0))
    learner, updated = Learner({"default": spec}), []
    graph: Any = learner.graphs["default"]
    for step in range(1, 2600):
        before = graph.get_weights(frozenset({"target_q.out.bias"}))["target_q.out.bias"]
        graph.set_weights({"q.out.bias": np.full(2, step, np.float32)})
        learner.advance(8)  # a step of eight environments
        after = graph.get_weights(frozenset({"target_q.out.bias"}))["target_q.out.bias"]
        updated += [step] if (after != before).any() else []
    assert updated == [1250, 2500]


def test_B082_targets_are_updated_alike_with_another_number_of_environments(build: Build) -> None:
    one, two = (linear(build, target_update_every=100) for _ in range(2))
    one.on_progress(Progress(env_steps=96))
    two.set_state(one.get_state())
    two.on_progress(Progress(env_steps=99))
    assert two.get_weights()["target_q.out.weight"].tolist() == [[3.0, 1.0]]
    two.on_progress(Progress(env_steps=101))
    assert two.get_weights()["target_q.out.weight"].tolist() == [[1.0, 2.0]]


def many(rows: int) -> SampleBatch:
    """Transitions with random numbers in them."""
    rng = np.random.default_rng(1)
    columns: dict[str, Any] = {
        "obs": rng.standard_normal((rows, 4)).astype(np.float32),
        "actions": rng.integers(3, size=rows),
        "rewards": rng.standard_normal(rows).astype(np.float32),
        "discounts": np.full(rows, 0.9, np.float32),
        "steps": np.ones(rows, np.int32),
    }
    cuts = {"start": np.arange(rows), "length": np.ones(rows, np.int64)}
    return SampleBatch(columns, {**cuts, "last_obs": rng.standard_normal((rows, 4)).astype(np.float32)})


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"double": False},
        {"dueling": True},
        {"distribution": {"low": -5, "high": 5, "atoms": 7}},
        {"noisy": 0.5},
        {"tau": 0.1},
    ],
    ids=str,
)
def test_minibatches_pinned_together_are_learnt_from_as_apart(build: Build, settings: dict[str, Any]) -> None:
    together, apart = (build(DQN, **settings) for _ in range(2))
    batch = many(24)
    parts = [batch.take_pieces(range(first, first + 8)) for first in (0, 8, 16)]
    for pinned, part in zip(together.pin_minibatches(batch, 3), parts, strict=True):
        one, other = together.learn(pinned), apart.learn(apart.pin(part))
        assert one.stats == pytest.approx(other.stats, rel=1e-5, abs=1e-6) and one.rows == other.rows == 8
        np.testing.assert_allclose(one.td_error, other.td_error, rtol=1e-5, atol=1e-6)
    for name, array in together.get_weights().items():
        np.testing.assert_allclose(array, apart.get_weights()[name], rtol=0, atol=1e-6)


@pytest.mark.parametrize("change", ["update_target", "progress", "weights", "state"])
def test_targets_that_change_after_minibatches_were_pinned_count(build: Build, change: str) -> None:
    one, other = (build(DQN, target_update_every=10) for _ in range(2))
    for _ in range(3):
        one.learn(many(8))
        other.learn(many(8))
    pinned = one.pin_minibatches(many(16), 2)
    fresh = build(DQN, seed=1, target_update_every=10)
    for own in (one, other):
        if change == "update_target":
            own.utilities()["update_target"]()
        elif change == "progress":
            own.on_progress(Progress(env_steps=10, updates=3))
        elif change == "weights":
            own.set_weights(fresh.get_weights())
        else:
            own.set_state(fresh.get_state())
    parts = [many(16).take_pieces(range(first, first + 8)) for first in (0, 8)]
    for together, part in zip(pinned, parts, strict=True):
        np.testing.assert_array_equal(one.learn(together).td_error, other.learn(part).td_error)


def test_soft_targets_move_at_every_update(build: Build) -> None:
    own = linear(build, tau=0.5)
    own.on_progress(Progress(env_steps=5000))
    assert own.get_weights()["target_q.out.weight"].tolist() == [[3.0, 1.0]]
    own.on_progress(Progress(env_steps=5000, updates=1))
    assert own.get_weights()["target_q.out.weight"].tolist() == [[2.0, 1.5]]
    own.on_progress(Progress(env_steps=5000, updates=3))
    assert own.get_weights()["target_q.out.weight"].tolist() == [[1.25, 1.875]]
    own.on_progress(Progress(env_steps=5001, updates=3))
    assert own.get_weights()["target_q.out.weight"].tolist() == [[1.25, 1.875]]


def test_B073_epsilon_goes_on_where_it_was(build: Build) -> None:
    one, two = (linear(build, epsilon=[[0, 1.0], [10_000, 0.05]]) for _ in range(2))
    one.on_progress(Progress(env_steps=5000))
    two.set_state(one.get_state())
    assert two.call("epsilon") == pytest.approx(0.525)
    assert two.actor().call("epsilon") == pytest.approx(0.525)
    two.call("set_epsilon", 0.0)
    assert two.call("epsilon") == 0.0 == two.actor().call("epsilon")


def test_B076_optimizer_state_is_restored(build: Build) -> None:
    one, two = (build(DQN, gymnasium.spaces.Discrete(2), observation_space=LINE, seed=seed) for seed in (0, 1))
    for _ in range(10):
        one.learn(transitions())
    two.set_state(one.get_state())
    one.learn(transitions())
    two.learn(transitions())
    assert all(np.array_equal(array, two.get_weights()[name]) for name, array in one.get_weights().items())


def test_masked_successors_are_not_counted_on(build: Build) -> None:
    space = gymnasium.spaces.Dict(place=LINE, action_mask=gymnasium.spaces.MultiBinary(2))
    own = build(DQN, gymnasium.spaces.Discrete(2), observation_space=space, double=False, **LINEAR)
    zero = np.zeros(2, np.float32)
    own.set_weights({"q.out.weight": np.array([[1, 2]], np.float32), "q.out.bias": zero})
    own.set_weights({"target_q.out.weight": np.array([[3, 1]], np.float32), "target_q.out.bias": zero})
    plain = transitions()
    rows = {name: column for name, column in plain.rows.items() if name != "obs"}
    cuts = {name: column for name, column in plain.cuts.items() if name != "last_obs"}
    rows |= {"obs.place": plain["obs"], "obs.action_mask": np.ones((2, 2), np.int8)}
    # Where the episode is over a mask may allow nothing at all.
    cuts |= {"last_obs.place": plain.cuts["last_obs"], "last_obs.action_mask": np.array([[0, 1], [0, 0]], np.int8)}
    assert own.gradients(SampleBatch(rows, cuts)).td_error.tolist() == [-1.0, 5.0]


def test_noise_is_drawn_anew_for_every_update(build: Build) -> None:
    own = linear(build, noisy=0.5)
    batch = transitions()
    first, again = own.gradients(batch), own.gradients(batch)
    assert np.array_equal(first.td_error, again.td_error)
    own.apply_gradients({name: 0.0 * gradient for name, gradient in first.gradients.items()})
    assert not np.array_equal(own.gradients(batch).td_error, first.td_error)
    assert np.abs(first.gradients["q.out.weight_noise"]).max() > 0.0


def test_a_distribution_is_learnt(build: Build) -> None:
    settings = {**LINEAR, "distribution": {"low": -2, "high": 2, "atoms": 5}, "learning_rate": 0.05}
    own = build(DQN, gymnasium.spaces.Discrete(2), observation_space=LINE, **settings)
    batch = transitions(weights=False)
    first = own.learn(batch)
    assert (first.td_error > 0.0).all()
    for _ in range(400):
        last = own.learn(batch)
    # The second row's return is -1, the first one's 1 + Z / 2 of a target that is uniform.
    q = own.q_values(np.array([[1], [2]], np.float32))
    assert q[0, 0] == pytest.approx(1.0, abs=0.3) and q[1, 1] == pytest.approx(-1.0, abs=0.05)
    assert (last.td_error < first.td_error / 5).all()


def test_recurrent_settings(build: Build) -> None:
    with pytest.raises(ValueError, match="burn_in: only recurrent policies"):
        DQN.Config(burn_in=3)
    with pytest.raises(ValueError, match="noisy: not for recurrent policies"):
        DQN.Config(noisy=0.5, model={"lstm": 3})
    own = build(DQN, model={"lstm": 3}, n_step=3)
    assert own.minibatch_unit is PIECE and own.lookahead == 0


def test_what_it_cannot_do_is_refused(build: Build) -> None:
    with pytest.raises(SpaceError, match="needs a Discrete one"):
        build(DQN, gymnasium.spaces.MultiDiscrete([2, 3]))
    with pytest.raises(ConfigError, match="custom"):
        build(DQN, model={"custom": "some.module:build"})
