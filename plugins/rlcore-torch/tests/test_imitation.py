"""Behavioural cloning and advantage-weighted imitation against their formulae, and what the scale follows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import Categorical

from rlcore.learning.marwil import followed, sharpness
from rlcore.policy_graph import Progress
from rlcore_torch import BC, MARWIL
from rlcore_torch.losses import advantage_weights

Build = Callable[..., Any]
MODEL = {"hidden": [6]}


def outputs(weights: Any, name: str, obs: Any) -> Any:
    x = torch.tanh(obs @ weights[f"{name}.hidden_0.weight"] + weights[f"{name}.hidden_0.bias"])
    return x @ weights[f"{name}.out.weight"] + weights[f"{name}.out.bias"]


def tensors(graph: Any) -> Any:
    rng = np.random.default_rng(3)
    graph.set_weights({n: rng.standard_normal(a.shape).astype(np.float32) for n, a in graph.get_weights().items()})
    return {n: torch.tensor(a, dtype=torch.float64, requires_grad=True) for n, a in graph.get_weights().items()}


def compare(graph: Any, batch: Any, weights: Any, loss: Any) -> Any:
    found = graph.gradients(batch)
    names = sorted(weights)
    for name, gradient in zip(names, torch.autograd.grad(loss, [weights[n] for n in names]), strict=True):
        np.testing.assert_allclose(found.gradients[name], gradient.numpy(), rtol=2e-4, atol=1e-6, err_msg=name)
    assert found.stats["loss"] == pytest.approx(loss.item(), rel=1e-5)
    return found


def test_cloning_against_its_formula(build: Build, sample: Any) -> None:
    graph = build(BC, model=MODEL, entropy_coeff=0.1, max_grad_norm=None)
    weights = tensors(graph)
    batch = graph.postprocess(sample(graph, rows=12))
    policy = Categorical(logits=outputs(weights, "policy", torch.tensor(batch["obs"]).double()))
    likelihood = policy.log_prob(torch.tensor(batch["actions"]))
    found = compare(graph, batch, weights, (-likelihood - 0.1 * policy.entropy()).mean())
    assert found.stats["log_likelihood"] == pytest.approx(likelihood.mean().item(), rel=1e-5)


@pytest.mark.parametrize("square", [None, 4.0])
def test_weighted_imitation_against_its_formula(build: Build, sample: Any, square: float | None) -> None:
    graph = build(MARWIL, model=MODEL, beta=2.0, max_weight=1.5, max_grad_norm=None, vf_loss_coeff=0.3)
    weights = tensors(graph)
    if square is not None:
        graph.on_progress(Progress(stats={"advantage_square": square}))
    batch = graph.postprocess(sample(graph, rows=12))
    obs, returns = torch.tensor(batch["obs"]).double(), torch.tensor(batch["value_targets"]).double()
    likelihood = Categorical(logits=outputs(weights, "policy", obs)).log_prob(torch.tensor(batch["actions"]))
    advantages = returns - outputs(weights, "value", obs)[:, 0]
    each = (advantages.detach() * (0.0 if square is None else 2.0 / 2.0)).exp().clamp(max=1.5)
    loss = (-each * likelihood + 0.3 * advantages.square()).mean()
    found = compare(graph, batch, weights, loss)
    assert found.stats["weight"] == pytest.approx(each.mean().item(), rel=1e-5)
    assert found.stats["advantage_square"] == pytest.approx(advantages.square().mean().item(), rel=1e-5)


def test_actions_count_by_their_advantages_up_to_a_limit() -> None:
    advantages = torch.tensor([[-2.0], [0.0], [1.0], [100.0]])
    found = advantage_weights(advantages, torch.tensor(0.5), torch.tensor(math.log(20.0)))
    np.testing.assert_allclose(found[:, 0], [math.exp(-1.0), 1.0, math.exp(0.5), 20.0], rtol=1e-6)


def test_the_scale_is_the_running_root_mean_square_of_advantages() -> None:
    assert sharpness(3.0, None) == 0.0 == sharpness(3.0, 0.0)
    assert sharpness(3.0, 4.0) == 1.5
    assert followed(None, 8.0, 0.25) == 8.0
    assert followed(8.0, 4.0, 0.25) == 7.0


def test_the_scale_goes_on_from_a_state(build: Build) -> None:
    graph, other, fresh = (build(MARWIL, model=MODEL, scale_rate=0.25) for _ in range(3))
    for square in (8.0, 4.0):
        graph.on_progress(Progress(stats={"advantage_square": square}))
    other.set_state(graph.get_state())
    assert other.scalars() == graph.scalars() == {**graph.scalars(), "sharpness": 1.0 / math.sqrt(7.0)}
    other.set_state(fresh.get_state())
    assert other.scalars()["sharpness"] == 0.0


def test_what_comes_after_a_truncation_counts_as_nothing(build: Build, sample: Any) -> None:
    graph = build(MARWIL, model=MODEL, gamma=0.5)
    batch = sample(graph, rows=4, pieces=2).with_rows(rewards=np.array([1, 2, 3, 4], np.float32))
    found = graph.postprocess(batch)
    np.testing.assert_allclose(found["value_targets"], [2.0, 2.0, 5.0, 4.0])
