"""The NumPy graph of Q-learning: an update by hand, its exploration, its target."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from rlcore.batch import SampleBatch
from rlcore.errors import SpaceError
from rlcore.policy_graph import ActRows, Progress
from rlcore.testing import LinearQ, check_policy_graph

SPACES = (gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32), gymnasium.spaces.Discrete(2))


def build(**settings: Any) -> LinearQ:
    return LinearQ(*SPACES, LinearQ.Config(**settings), rng=np.random.default_rng(0))


def test_it_keeps_the_contract() -> None:
    check_policy_graph(LinearQ, {"n_step": 2})


def test_one_update_by_hand() -> None:
    graph = build(gamma=0.5)
    online = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    target = np.array([[10.0, 20.0], [30.0, 40.0]], np.float32)
    graph.set_weights({"q.out.weight": online, "target_q.out.weight": target})
    batch = SampleBatch(
        {
            "obs": np.array([[1.0, 0.0], [0.0, 1.0]], np.float32),
            "actions": np.array([1, 0]),
            "rewards": np.array([1.0, -1.0], np.float32),
            "terminated": np.array([False, True]),
            "truncated": np.array([False, False]),
            "discounts": np.array([0.5, 0.0], np.float32),
            "weights": np.array([1.0, 0.5], np.float32),
        },
        {
            "start": np.array([0, 1]),
            "length": np.array([1, 1]),
            "last_obs": np.array([[0.0, 0.1], [1.0, 1.0]], np.float32),
        },
    )
    output = graph.gradients(batch)
    # Of the successor online prefers action 1 (0.4 to 0.3), which the target values 4: 2 - (1 + 0.5 * 4), 3 - (-1).
    np.testing.assert_allclose(output.td_error, [-1.0, 4.0], rtol=1e-6)
    assert output.stats["loss"] == pytest.approx(0.5 * (1.0 * 1 + 0.5 * 16) / 2)
    assert output.stats["q"] == pytest.approx(2.5)
    np.testing.assert_allclose(output.gradients["q.out.weight"], [[0.0, -0.5], [1.0, 0.0]])
    np.testing.assert_allclose(output.gradients["q.out.bias"], [1.0, -0.5])


def test_epsilon_goes_by_the_environment_steps_until_it_is_set() -> None:
    graph = build(epsilon=[[0, 1.0], [100, 0.0]])
    graph.set_weights({"q.out.bias": np.array([1.0, 0.0], np.float32)})
    actor, rng = graph.actor(), np.random.default_rng(1)
    obs = np.zeros((4000, 2), np.float32)
    for steps, share in ((0, 0.5), (50, 0.25), (100, 0.0)):
        actor.on_progress(Progress(env_steps=steps))
        assert actor.act(obs, rng=rng).actions.mean() == pytest.approx(share, abs=0.03)
    actor.call("set_epsilon", np.array([0.0, 1.0]))
    actor.on_progress(Progress(env_steps=0))
    slots = np.arange(4000) % 2
    rows = ActRows(slots, slots, slots, slots == 0)
    actions = actor.act(obs, rows=rows, rng=rng).actions
    assert actions[slots == 0].mean() == 0.0 and actions[slots == 1].mean() == pytest.approx(0.5, abs=0.04)
    assert not actor.act(obs, explore=False, rng=rng).actions.any()


def test_the_target_is_replaced_every_so_many_environment_steps() -> None:
    graph = build(target_every=10)
    replaced = []
    for steps in (8, 9, 12, 19, 40, 41):
        graph.set_weights({"q.out.bias": np.array([steps, 0.0], np.float32)})
        graph.on_progress(Progress(env_steps=steps))
        replaced.append(float(graph.get_weights()["target_q.out.bias"][0]))
    assert replaced == [0, 0, 12, 12, 40, 40]
    graph.call("update_target")
    assert graph.get_weights()["target_q.out.bias"][0] == 41
    assert graph.acting == graph.trainable == {"q.out.weight", "q.out.bias"}


def test_it_acts_in_discrete_spaces_only() -> None:
    with pytest.raises(SpaceError, match="Discrete"):
        LinearQ(SPACES[0], SPACES[0], LinearQ.Config(), rng=np.random.default_rng(0))
