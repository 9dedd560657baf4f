"""V-trace in torch against its definition, against the kernel's, and as the graphs compute it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore import returns
from rlcore.batch import SampleBatch
from rlcore.learning.successors import extended
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.returns import passes_for
from rlcore.sampling.collect import Fragment
from rlcore.testing.environments import Drawn
from rlcore_torch import APPO, IMPALA
from rlcore_torch.vtrace import VTrace, backward_scan, vtrace

Build = Callable[..., Any]
GAMMA = 0.9


def drawn(lengths: list[int], seed: int, on_policy: bool = False) -> tuple[SampleBatch, dict[str, Any]]:
    """Pieces of these lengths, some of which terminated and some truncated, and what V-trace reads beside them."""
    rng = np.random.default_rng(seed)
    rows, pieces, sizes = sum(lengths), len(lengths), np.array(lengths)
    last = np.cumsum(sizes) - 1
    terminated, truncated = np.zeros(rows, bool), np.zeros(rows, bool)
    kinds = rng.integers(3, size=pieces)
    terminated[last[kinds == 1]] = True
    truncated[last[kinds == 2]] = True
    batch = SampleBatch(
        {"rewards": rng.standard_normal(rows).astype(np.float32), "terminated": terminated, "truncated": truncated},
        {"start": last - sizes + 1, "length": sizes, "bootstrap": kinds != 1},
    )
    more = {
        "values": rng.standard_normal(rows),
        "last_values": rng.standard_normal(pieces),
        "log_ratios": np.zeros(rows) if on_policy else rng.standard_normal(rows),
    }
    return batch, more


def by_torch(batch: SampleBatch, more: dict[str, Any], **clips: float) -> VTrace:
    where = returns.ends(batch)
    successors = returns.successor_values(more["values"], more["last_values"], where)
    return vtrace(
        torch.from_numpy(batch["rewards"]),
        torch.from_numpy(more["values"]),
        torch.from_numpy(successors),
        GAMMA * torch.from_numpy(where.alive).double(),
        torch.from_numpy(where.continues),
        torch.from_numpy(more["log_ratios"]),
        passes=passes_for(int(batch.cuts["length"].max())),
        **clips,
    )


def by_definition(
    batch: SampleBatch, more: dict[str, Any], rho_clip: float, trace_clip: float, lambda_: float
) -> tuple[list[float], list[float]]:
    """Espeholt et al. 2018, equation 1, sum by sum and product by product; and ``r + gamma v - V``."""
    targets, errors = [], []
    for start, length, last_value, alive in zip(
        batch.cuts["start"], batch.cuts["length"], more["last_values"], batch.cuts["bootstrap"], strict=True
    ):
        own = slice(start, start + length)
        rewards = batch["rewards"][own].astype(np.float64)
        values = [*more["values"][own], last_value if alive else 0.0]
        ratios = np.exp(more["log_ratios"][own])
        v = []
        for s in range(length):
            total = values[s]
            for t in range(s, length):
                traces = math.prod(lambda_ * min(trace_clip, ratios[i]) for i in range(s, t))
                delta = min(rho_clip, ratios[t]) * (rewards[t] + GAMMA * values[t + 1] - values[t])
                total += GAMMA ** (t - s) * traces * delta
            v.append(total)
        after = [*v[1:], values[-1]]
        targets += v
        errors += [rewards[s] + GAMMA * after[s] - values[s] for s in range(length)]
    return targets, errors


@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    seed=st.integers(0, 2**31),
    rho_clip=st.sampled_from([0.5, 1.0, 3.0]),
    trace_clip=st.sampled_from([0.5, 1.0, 2.0]),
    lambda_=st.sampled_from([0.0, 0.8, 1.0]),
)
@settings(deadline=None)
def test_it_is_the_definition_and_the_kernels(
    lengths: list[int], seed: int, rho_clip: float, trace_clip: float, lambda_: float
) -> None:
    batch, more = drawn(lengths, seed)
    found = by_torch(batch, more, rho_clip=rho_clip, trace_clip=trace_clip, lambda_=lambda_)
    targets, errors = by_definition(batch, more, rho_clip, trace_clip, lambda_)
    np.testing.assert_allclose(found.targets.numpy(), targets, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.errors.numpy(), errors, rtol=1e-9, atol=1e-9)
    kernel = returns.vtrace(
        batch, **more, gamma=GAMMA, lambda_=lambda_, rho_clip=rho_clip, trace_clip=trace_clip, advantage_rho_clip=0.7
    )
    np.testing.assert_allclose(kernel.targets, targets, rtol=1e-6, atol=1e-6)
    weighted = np.minimum(np.exp(more["log_ratios"]), 0.7) * errors
    np.testing.assert_allclose(kernel.advantages, weighted, rtol=1e-6, atol=1e-6)


@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6), seed=st.integers(0, 2**31))
@settings(deadline=None)
def test_the_scan_is_the_kernels(lengths: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, sum(lengths)))
    b[np.cumsum(lengths) - 1] = 0.0
    found = backward_scan(torch.from_numpy(a), torch.from_numpy(b), passes_for(max(lengths)))
    np.testing.assert_allclose(found.numpy(), returns.backward_scan(a, b), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("longest", "passes"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (64, 6), (65, 7)])
def test_passes(longest: int, passes: int) -> None:
    assert passes_for(longest) == passes


def test_B118_on_policy_it_is_the_n_step_return() -> None:
    # Count: rewards 1, 1, 1 and a bootstrap of 13 after three steps: 2.71 + 0.729 * 13.
    batch = SampleBatch(
        {"rewards": np.ones(3, np.float32), "terminated": np.zeros(3, bool), "truncated": np.zeros(3, bool)},
        {"start": np.array([0]), "length": np.array([3]), "bootstrap": np.array([True])},
    )
    found = by_torch(batch, {"values": np.array([5.0, -2.0, 7.0]), "last_values": [13.0], "log_ratios": np.zeros(3)})
    assert found.targets[0].item() == pytest.approx(12.187, abs=1e-12)


@pytest.mark.parametrize("normalized", [True, False], ids=["normalized", "as_they_are"])
@pytest.mark.parametrize("shifted", [True, False], ids=["stale", "fresh"])
@pytest.mark.parametrize("model", [{}, {"lstm": 6}, {"shared_value": True}, {"lstm": 4, "shared_value": True}])
@pytest.mark.parametrize("graph", [IMPALA, APPO])
def test_a_graphs_loss_is_made_of_it(
    build: Build, graph: Any, model: dict[str, Any], shifted: bool, normalized: bool
) -> None:
    clips = {"rho_clip": 0.9, "trace_clip": 0.8, "vtrace_lambda": 0.95}
    own = build(graph, model={"hidden": [8], **model}, gamma=GAMMA, normalize_advantages=normalized, **clips)
    env = partial(Drawn, own.observation_space, own.action_space)
    batch = PolicyEvaluator(env=env, graph=own, num_envs=3, collect=Fragment(9), rng=4).sample()
    if shifted:
        rng = np.random.default_rng(3)
        weights = own.get_weights()
        own.set_weights({n: w + 0.3 * rng.standard_normal(w.shape).astype(np.float32) for n, w in weights.items()})
    with_values = own._inference.with_values(
        SampleBatch({n: c for n, c in batch.rows.items() if n != "vf_preds"}, batch.cuts)
    )
    if model.get("lstm"):
        # The state after a piece is of the weights that acted; here it comes from those that learn.
        with_values = with_values.with_cuts(last_value=last_values_of(own, batch))
    log_probs = own.log_probs(batch)
    log_ratios = log_probs - batch["action_logp"]
    values, last_values = with_values["vf_preds"], with_values.cuts["last_value"]
    found = returns.vtrace(
        batch,
        values,
        last_values,
        log_ratios,
        GAMMA,
        lambda_=0.95,
        rho_clip=0.9,
        trace_clip=0.8,
        advantage_rho_clip=np.inf,
    )
    ratios = np.exp(log_ratios)
    errors = found.advantages / ratios
    if normalized:
        # Not what the ratios have weighed: an action that the policy has given up counts for nothing.
        errors = (errors - errors.mean()) / errors.std()
    if graph is IMPALA:
        expected = np.mean(log_probs * np.minimum(ratios, 1.0) * errors)
    else:
        expected = np.mean(np.minimum(ratios * errors, np.clip(ratios, 0.8, 1.2) * errors))
    stats = own.gradients(batch).stats
    assert stats["policy_loss"] == pytest.approx(-expected, rel=1e-4, abs=1e-6)
    assert stats["value_loss"] == pytest.approx(np.mean((values - found.targets) ** 2), rel=1e-4, abs=1e-6)
    assert (stats["kl"] > 1e-4) == shifted


@pytest.mark.parametrize("graph", [IMPALA, APPO])
def test_kl_coeff_holds_the_policy_near_the_one_that_acted(build: Build, graph: Any) -> None:
    free, held = (build(graph, model={"hidden": [8]}, kl_coeff=coeff) for coeff in (0.0, 0.7))
    env = partial(Drawn, free.observation_space, free.action_space)
    batch = PolicyEvaluator(env=env, graph=free, num_envs=3, collect=Fragment(9), rng=4).sample()
    # KL has no slope where both are the same.
    fresh = [own.gradients(batch).gradients for own in (free, held)]
    for name, gradient in fresh[0].items():
        np.testing.assert_allclose(gradient, fresh[1][name], rtol=1e-5, atol=1e-7)
    rng = np.random.default_rng(3)
    moved = {n: w + 0.3 * rng.standard_normal(w.shape).astype(np.float32) for n, w in free.get_weights().items()}
    for own in (free, held):
        own.set_weights(moved)
    stats = held.gradients(batch).stats
    terms = stats["policy_loss"] + 0.5 * stats["value_loss"] - 0.01 * stats["entropy"] + 0.7 * stats["kl"]
    assert stats["loss"] == pytest.approx(terms, rel=1e-5)
    before = stats["kl"]
    plain = free.gradients(batch).gradients
    pull = {name: gradient - plain[name] for name, gradient in held.gradients(batch).gradients.items()}
    held.set_weights({name: moved[name] - 0.01 * own for name, own in pull.items()})
    assert held.gradients(batch).stats["kl"] < before


@torch.inference_mode()
def last_values_of(own: Any, batch: SampleBatch) -> Any:
    """By the weights as they are, from the state before each piece on."""
    sizes = batch.cuts["length"] + 1
    longer = SampleBatch(
        {"obs": extended(batch)}, {**batch.cuts, "start": np.cumsum(sizes) - sizes, "length": sizes}
    )
    values = own._inference._by_row(longer, {}, lambda heads, _: heads.values)
    return values[np.cumsum(sizes) - 1]
