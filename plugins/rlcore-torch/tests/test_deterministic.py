from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from rlcore.acting import to_env
from rlcore.batch import SampleBatch
from rlcore.errors import OptimizerError
from rlcore.policy_graph import Progress
from rlcore_torch import DDPG, TD3

Build = Callable[..., Any]
OBS = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
CROOKED = gymnasium.spaces.Box(np.array([0, -3], np.float32), np.array([10, 1], np.float32))
MODEL = {"hidden": [6, 5]}


def transitions(rows: int = 7, seed: int = 0, weights: bool = True) -> SampleBatch:
    rng = np.random.default_rng(seed)
    unit = rng.uniform(-1, 1, (rows, 2))
    columns: dict[str, Any] = {
        "obs": rng.standard_normal((rows, 3)).astype(np.float32),
        "actions": (np.array([5, -1]) + np.array([5, 2]) * unit).astype(np.float32),
        "rewards": rng.standard_normal(rows).astype(np.float32),
        "terminated": np.arange(rows) == 2,
        "truncated": np.zeros(rows, np.bool_),
        "steps": np.ones(rows, np.int32),
        "discounts": np.where(np.arange(rows) == 2, 0.0, 0.9).astype(np.float32),
    }
    if weights:
        columns["weights"] = rng.random(rows).astype(np.float32)
    cuts = {
        "start": np.arange(rows),
        "length": np.ones(rows, np.int64),
        "bootstrap": np.arange(rows) != 2,
        "last_obs": rng.standard_normal((rows, 3)).astype(np.float32),
    }
    return SampleBatch(columns, cuts)


def mlp(weights: Any, name: str, x: Any) -> Any:
    for layer in ("hidden_0", "hidden_1"):
        x = torch.relu(x @ weights[f"{name}.{layer}.weight"] + weights[f"{name}.{layer}.bias"])
    return x @ weights[f"{name}.out.weight"] + weights[f"{name}.out.bias"]


def by_the_formulae(own: Any, batch: SampleBatch, critics: int, noise: Any = 0.0) -> tuple[Any, Any]:
    """Temporal differences ``[critics, n]`` and gradients by name, in float64 with a plain autograd."""
    weights = {name: torch.tensor(a, dtype=torch.float64) for name, a in own.get_weights().items()}
    for name in own.trainable:
        weights[name].requires_grad_()
    obs, after = torch.tensor(batch["obs"]).double(), torch.tensor(batch.cuts["last_obs"]).double()
    unit = (torch.tensor(batch["actions"]).double() - torch.tensor([5, -1])) / torch.tensor([5, 2])
    names = [f"q{i + 1}" for i in range(critics)]
    with torch.no_grad():
        best = (mlp(weights, "target_policy", after).tanh() + noise).clamp(-1, 1)
        values = [mlp(weights, f"target_{name}", torch.cat([after, best], 1)) for name in names]
        goal = torch.tensor(batch["rewards"])[:, None] + torch.tensor(batch["discounts"])[:, None] * torch.stack(
            values
        ).amin(0)
    errors = torch.stack([mlp(weights, name, torch.cat([obs, unit], 1)) - goal for name in names])
    importance = torch.tensor(batch["weights"]).double()[:, None] if "weights" in batch else 1.0
    q_loss = (importance * errors.square() / 2).sum(0).mean()
    critic_gradients = torch.autograd.grad(q_loss, [weights[n] for n in sorted(weights) if n.startswith("q")])
    own_action = mlp(weights, "policy", obs).tanh()
    policy_loss = -mlp(weights, "q1", torch.cat([obs, own_action], 1)).mean()
    policy_gradients = torch.autograd.grad(policy_loss, [weights[n] for n in sorted(weights) if n.startswith("policy")])
    gradients = dict(zip([n for n in sorted(weights) if n.startswith("q")], critic_gradients, strict=True))
    gradients |= dict(zip([n for n in sorted(weights) if n.startswith("policy")], policy_gradients, strict=True))
    return errors.detach()[:, :, 0], {name: gradient.numpy() for name, gradient in gradients.items()}


def spread_out(own: Any, seed: int = 3) -> None:
    """Targets that differ from what they follow, and a policy whose actions depend on something."""
    rng = np.random.default_rng(seed)
    own.set_weights({n: rng.standard_normal(a.shape).astype(np.float32) / 2 for n, a in own.get_weights().items()})


@pytest.mark.parametrize(("graph", "critics"), [(DDPG, 1), (TD3, 2)])
def test_gradients_are_those_of_the_formulae(build: Build, graph: Any, critics: int) -> None:
    own, batch = build(graph, CROOKED, observation_space=OBS, model=MODEL), transitions()
    spread_out(own)
    if graph is TD3:
        own.apply_gradients({name: np.zeros(own.get_weights()[name].shape, np.float32) for name in own.trainable})
    (minibatch,) = own.minibatches(own.pin(batch), None)
    noise = minibatch["noise"].double() if graph is TD3 else 0.0
    errors, expected = by_the_formulae(own, batch, critics, noise)
    found = own.gradients(batch)
    assert found.gradients.keys() == expected.keys() == own.trainable
    for name, gradient in expected.items():
        np.testing.assert_allclose(found.gradients[name], gradient, rtol=1e-4, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(found.td_error, errors.abs().mean(0), rtol=1e-4)


def test_noise_on_the_targets_actions_is_clipped(build: Build) -> None:
    own = build(TD3, CROOKED, observation_space=OBS, model=MODEL, target_noise=0.3, target_noise_clip=0.4)
    (minibatch,) = own.minibatches(own.pin(transitions(4000)), None)
    noise = minibatch["noise"].numpy()
    assert noise.shape == (4000, 2) and np.abs(noise).max() == np.float32(0.4)
    assert np.abs(noise[np.abs(noise) < 0.4]).mean() == pytest.approx(0.17, abs=0.02)


def test_the_policy_moves_at_every_second_update(build: Build) -> None:
    own, batch = build(TD3, CROOKED, observation_space=OBS, model=MODEL), transitions()
    moved = []
    for _ in range(6):
        before, gradients = own.get_weights(), own.gradients(batch).gradients
        own.learn(batch)
        after = own.get_weights()
        moved.append(
            [any((after[n] != before[n]).any() for n in own.trainable if n.startswith(p)) for p in ("policy", "q")]
        )
        # Another copy may apply them, after an update by which the policy moves.
        assert any(gradients[name].any() for name in own.acting)
    assert moved == [[False, True], [True, True]] * 3


@pytest.mark.parametrize(("graph", "times"), [(DDPG, [1, 2, 3, 4]), (TD3, [0, 1, 1, 2])])
def test_targets_move_with_the_policy(build: Build, graph: Any, times: list[int]) -> None:
    own = build(graph, CROOKED, observation_space=OBS, model=MODEL, tau=0.5)
    for updates, expected in enumerate(times, 1):
        own.set_weights({"policy.out.bias": np.ones(2, np.float32), "q1.out.bias": np.full(1, 2, np.float32)})
        own.on_progress(Progress(env_steps=updates, updates=updates))
        weights = own.get_weights()
        assert weights["target_policy.out.bias"].tolist() == [1 - 0.5**expected] * 2
        assert weights["target_q1.out.bias"].tolist() == [2 * (1 - 0.5**expected)]


def test_actions_are_within_crooked_bounds(build: Build) -> None:
    own = build(DDPG, CROOKED, observation_space=OBS, model=MODEL, noise=2.0)
    actions = own.act(np.zeros((500, 3), np.float32), rng=np.random.default_rng(0)).actions
    assert np.array_equal(np.asarray(to_env(actions, CROOKED)), actions)
    assert actions.min(axis=0).tolist() == [0.0, -3.0] and actions.max(axis=0).tolist() == [10.0, 1.0]
    own.set_weights({"policy.out.weight": np.zeros((5, 2), np.float32)})
    middle = own.act(np.ones((1, 3), np.float32), explore=False, rng=np.random.default_rng(0)).actions
    assert middle.tolist() == [[5.0, -1.0]]


def test_noise_is_a_utility_and_kept(build: Build) -> None:
    one, two = (build(DDPG, CROOKED, observation_space=OBS, noise=[[0, 0.5], [1000, 0.1]]) for _ in range(2))
    one.on_progress(Progress(env_steps=500))
    two.set_state(one.get_state())
    assert two.call("noise") == pytest.approx(0.3) == two.actor().call("noise")
    two.call("set_noise", [0.1, 0.2])
    assert two.actor().call("noise").tolist() == [0.1, 0.2]


def test_one_rule_says_how_they_move_only_where_it_does(build: Build) -> None:
    assert build(DDPG, CROOKED, learning_rate=0.01).update_rule().learning_rate == 0.01
    for graph, settings in ((TD3, {}), (DDPG, {"policy_learning_rate": 1e-5}), (DDPG, {"max_grad_norm": 1.0})):
        with pytest.raises(OptimizerError, match="moves policy, critics apart"):
            build(graph, CROOKED, **settings).update_rule()


def test_groups_are_clipped_and_move_at_their_own_rates(build: Build) -> None:
    own = build(DDPG, CROOKED, observation_space=OBS, learning_rate=0.01, policy_learning_rate=0.0, max_grad_norm=1.0)
    before = own.get_weights()
    own.apply_gradients({name: np.full(before[name].shape, 100.0, np.float32) for name in own.trainable})
    after = own.get_weights()
    assert all(np.array_equal(after[name], before[name]) for name in own.acting)
    np.testing.assert_allclose(after["q1.out.bias"], before["q1.out.bias"] - 0.01, rtol=1e-3)
