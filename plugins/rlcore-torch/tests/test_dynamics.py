"""Dynamics models in torch: losses worked by hand, running moments, and a system that they learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from rlcore.batch import SampleBatch
from rlcore.errors import OptimizerError, UserError
from rlcore.planning import architecture as names
from rlcore.planning.ensemble import MeanEnsemble
from rlcore_torch import Dynamics, dynamics_losses

PLACE = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
FORCE = gymnasium.spaces.Box(-2.0, 2.0, (1,), np.float32)
SMALL = {"horizon": 3, "population": 8, "elites": 2, "iterations": 2}


def test_the_likelihood_by_hand() -> None:
    squares = torch.tensor([[[4.0, 1.0]]])
    log_variances = torch.tensor([[[np.log(2.0), 0.0]]], dtype=torch.float32)
    # 0.5 * ((4 / 2 + log 2) + (1 + 0)) = 1.8465736
    found = dynamics_losses.negative_log_likelihood(squares, log_variances, 0.0)
    assert found.item() == pytest.approx(1.8465736, abs=1e-6)
    # The first counts with the root of 2: 0.5 * (1.4142136 * 2.6931472 + 1) = 2.4043429
    weighted = dynamics_losses.negative_log_likelihood(squares, log_variances, 0.5)
    assert weighted.item() == pytest.approx(2.4043427, abs=1e-6)


def test_beta_weights_gradients_and_gets_none() -> None:
    squares = torch.tensor([[[4.0]]])
    gradients = []
    for beta in (0.0, 0.5):
        log_variances = torch.full((1, 1, 1), float(np.log(2.0)), requires_grad=True)
        dynamics_losses.negative_log_likelihood(squares, log_variances, beta).sum().backward()
        gradients.append(log_variances.grad.item())
    # 0.5 * (1 - 4 / 2), and that times the root of 2.
    assert gradients == pytest.approx([-0.5, -0.7071068], abs=1e-6)


def test_bounds_are_those_of_numpy() -> None:
    raw = np.linspace(-20.0, 20.0, 9, dtype=np.float32)
    low, high = np.full(9, -4.0, np.float32), np.full(9, 1.0, np.float32)
    found = dynamics_losses.bounded(*map(torch.tensor, (raw, low, high)))
    assert found.numpy() == pytest.approx(names.bounded(raw, low, high), abs=1e-5)


def test_running_moments_go_towards_those_of_the_rows() -> None:
    mean, variance = torch.tensor([1.0], requires_grad=True), torch.tensor([2.0], requires_grad=True)
    loss = dynamics_losses.towards_moments(mean, variance, torch.tensor([[2.0], [4.0]]))
    loss.backward()
    assert loss.item() == 0.0
    # (1 - 2) + (1 - 4), and (2 - 1) + (2 - 9).
    assert (mean.grad.item(), variance.grad.item()) == (-4.0, -6.0)


def test_ends_by_hand() -> None:
    logits = torch.tensor([[[0.0], [2.0]]])
    found = dynamics_losses.end_losses(logits, torch.tensor([[1.0], [0.0]]))
    assert found.ravel().tolist() == pytest.approx([np.log(2.0), np.log(1.0 + np.exp(2.0))], abs=1e-6)


def transitions(n: int, seed: int = 0) -> SampleBatch:
    """A cart on a line: place and speed, pushed; the reward is minus the place's square, the end is beyond 2."""
    rng = np.random.default_rng(seed)
    obs = rng.uniform(-2.0, 2.0, (n, 2)).astype(np.float32)
    push = rng.uniform(-2.0, 2.0, (n, 1)).astype(np.float32)
    after = np.stack([obs[:, 0] + 0.1 * obs[:, 1], obs[:, 1] + 0.1 * push[:, 0]], axis=1)
    ended = np.abs(after[:, 0]) > 1.5
    return SampleBatch(
        {"obs": obs, "actions": push, "rewards": -10.0 * np.square(obs[:, 0]), "terminated": ended,
         "truncated": np.zeros(n, bool), "t": np.zeros(n, np.int32)},
        {"start": np.arange(n), "length": np.ones(n, np.int64), "slot": np.zeros(n, np.int64),
         "eps_id": np.arange(n), "bootstrap": ~ended, "last_obs": after.astype(np.float32)},
    )


def made(build: Callable[..., Any], **settings: Any) -> Any:
    settings = {"members": 2, "planner": SMALL, "model": {"hidden": [32]}, **settings}
    return build(Dynamics, FORCE, observation_space=PLACE, **settings)


def test_it_learns_a_system(build: Callable[..., Any]) -> None:
    graph, rng = made(build, scale_rate=0.05), np.random.default_rng(1)
    data, test = transitions(2000), transitions(500, seed=1)
    for _ in range(600):
        stats = graph.learn(data, rng.integers(len(data), size=128)).stats
    assert stats["prediction_error"] < 0.02
    actor = graph.actor()
    model = MeanEnsemble(PLACE, actor.inputs, actor.architecture, actor.get_state()["weights"])
    after, rewards = model.step(model.from_obs(test.obs), test["actions"], rng)
    assert np.abs(after["obs"] - test.last_obs).max() < 0.1
    assert np.sqrt(np.square(rewards[:, 0] - test["rewards"]).mean()) < 0.25 * test["rewards"].std()
    assert (model.terminal(after) == test["terminated"]).mean() > 0.95
    weights = graph.get_weights()
    assert weights["scale.target_mean"][2] == pytest.approx(data["rewards"].mean(), abs=1.0)
    assert weights["scale.target_variance"][2] == pytest.approx(data["rewards"].var(), rel=0.15)


def test_members_differ_and_each_learns_from_every_row(build: Callable[..., Any]) -> None:
    graph = made(build)
    gradients = graph.gradients(transitions(64)).gradients
    first, second = (gradients[f"member_{i}.hidden_0.weight"] for i in range(2))
    assert np.abs(first).max() > 0.0 and np.abs(second).max() > 0.0
    assert not np.allclose(first, second)


def test_weights_of_rows_count(build: Callable[..., Any]) -> None:
    graph, rows = made(build), transitions(64)
    one = graph.gradients(rows.with_rows(weights=np.eye(64, dtype=np.float32)[0] * 64)).gradients
    alone = graph.gradients(rows.take_pieces([0])).gradients
    name = "member_0.out.weight"
    assert one[name] == pytest.approx(alone[name], rel=1e-4, abs=1e-6)


def test_sums_over_several_steps_are_refused(build: Callable[..., Any]) -> None:
    rows = transitions(8).with_rows(steps=np.full(8, 3, np.int32))
    with pytest.raises(UserError, match="n_step"):
        made(build).learn(rows)


def test_it_has_no_single_update_rule(build: Callable[..., Any]) -> None:
    with pytest.raises(OptimizerError, match="different rules"):
        made(build).update_rule()
