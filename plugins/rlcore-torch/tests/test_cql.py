"""Conservative Q-learning: its term against the formula, beside the terms of soft actor-critic."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch.distributions import Normal

from rlcore.batch import SampleBatch
from rlcore_torch import CQL, SAC

Build = Callable[..., Any]
MODEL = {"hidden": [6, 5]}
BOX = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)


def transitions(actions: Any, rows: int = 5, seed: int = 0) -> SampleBatch:
    rng = np.random.default_rng(seed)
    return SampleBatch(
        {
            "obs": rng.standard_normal((rows, 4)).astype(np.float32),
            "actions": actions(rng, rows),
            "rewards": rng.standard_normal(rows).astype(np.float32),
            "terminated": np.zeros(rows, np.bool_),
            "truncated": np.zeros(rows, np.bool_),
            "steps": np.ones(rows, np.int32),
            "discounts": np.full(rows, 0.9, np.float32),
        },
        {
            "start": np.arange(rows),
            "length": np.ones(rows, np.int64),
            "bootstrap": np.ones(rows, np.bool_),
            "last_obs": rng.standard_normal((rows, 4)).astype(np.float32),
        },
    )


def mlp(weights: Any, name: str, x: Any) -> Any:
    for layer in ("hidden_0", "hidden_1"):
        x = torch.relu(x @ weights[f"{name}.{layer}.weight"] + weights[f"{name}.{layer}.bias"])
    return x @ weights[f"{name}.out.weight"] + weights[f"{name}.out.bias"]


def moved(graph: Any) -> Any:
    rng = np.random.default_rng(3)
    graph.set_weights({n: rng.standard_normal(a.shape).astype(np.float32) / 2 for n, a in graph.get_weights().items()})
    weights = {name: torch.tensor(a, dtype=torch.float64) for name, a in graph.get_weights().items()}
    for name in graph.trainable:
        weights[name].requires_grad_()
    return weights


def critic_gradients(weights: Any, loss: Any) -> dict[str, Any]:
    names = [name for name in weights if name.startswith(("q1", "q2"))]
    found = torch.autograd.grad(loss, [weights[n] for n in names])
    return {name: gradient.numpy() for name, gradient in zip(names, found, strict=True)}


def agrees(build: Build, space: tuple[Any, ...], batch: SampleBatch, term: Any, **settings: Any) -> None:
    """Gradients are those of soft actor-critic plus three times those of the term; the policy's are the same."""
    own = build(CQL, *space, model=MODEL, conservative_weight=3.0, **settings)
    weights = moved(own)
    plain = build(SAC, *space, model=MODEL)
    plain.set_state({**own.get_state()})
    (drawn,) = own.minibatches(own.pin(batch), None)
    conservative = term(weights, batch, drawn)
    found, without = own.gradients(batch), plain.gradients(batch)
    assert found.stats["conservative"] == pytest.approx(conservative.item(), rel=1e-5)
    for name, more in critic_gradients(weights, conservative).items():
        np.testing.assert_allclose(
            found.gradients[name], without.gradients[name] + 3.0 * more, rtol=2e-4, atol=2e-6, err_msg=name
        )
    for name in (name for name in found.gradients if not name.startswith("q")):
        np.testing.assert_allclose(found.gradients[name], without.gradients[name], rtol=1e-5, atol=1e-7)


def test_values_of_other_discrete_actions_are_pressed_down(build: Build) -> None:
    def term(weights: Any, batch: SampleBatch, drawn: Any) -> Any:
        obs, rows = torch.tensor(batch["obs"]).double(), torch.arange(5)
        values = [mlp(weights, q, obs) for q in ("q1", "q2")]
        return sum(q.logsumexp(1) - q[rows, torch.tensor(batch["actions"])] for q in values).mean()

    agrees(build, (), transitions(lambda rng, rows: rng.integers(0, 3, rows)), term)


def test_values_of_other_continuous_actions_are_pressed_down(build: Build) -> None:
    def term(weights: Any, batch: SampleBatch, drawn: Any) -> Any:
        obs, after = torch.tensor(batch["obs"]).double(), torch.tensor(batch.cuts["last_obs"]).double()
        actions, densities = [drawn["even"].double()], [torch.full((5, 4), -2 * math.log(2.0))]
        for seen, noise in ((obs, "policy_noise"), (after, "next_policy_noise")):
            with torch.no_grad():
                mean, log_std = mlp(weights, "policy", seen).chunk(2, 1)
            normal = Normal(mean[:, None], log_std.clamp(-20, 2).exp()[:, None])
            sample = normal.mean + normal.stddev * drawn[noise].double()
            actions.append(sample.tanh())
            densities.append((normal.log_prob(sample) - torch.log(1 - sample.tanh() ** 2)).sum(2))
        total = 0.0
        for q in ("q1", "q2"):
            wide = obs[:, None].expand(-1, 4, -1)
            values = [mlp(weights, q, torch.cat([wide, own], 2))[..., 0] for own in actions]
            soft = torch.cat([own - log for own, log in zip(values, densities, strict=True)], 1)
            recorded = mlp(weights, q, torch.cat([obs, torch.tensor(batch["actions"]).double()], 1))[:, 0]
            total = total + (soft.logsumexp(1) - math.log(12) - recorded)
        return total.mean()

    batch = transitions(lambda rng, rows: rng.uniform(-1, 1, (rows, 2)).astype(np.float32))
    agrees(build, (BOX,), batch, term, samples=4)
