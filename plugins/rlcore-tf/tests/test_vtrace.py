"""V-trace in TensorFlow against the kernel's, and as the graphs compute it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore import returns
from rlcore.batch import SampleBatch
from rlcore_tf import APPO, IMPALA
from rlcore_tf.backend import tf
from rlcore_tf.vtrace import backward_scan, vtrace

GAMMA = 0.9


@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    seed=st.integers(0, 2**31),
    rho_clip=st.sampled_from([0.5, 1.0, 3.0]),
    trace_clip=st.sampled_from([0.5, 1.0, 2.0]),
    lambda_=st.sampled_from([0.0, 0.8, 1.0]),
)
@settings(deadline=None, max_examples=30)
def test_it_is_the_kernels(
    lengths: list[int], seed: int, rho_clip: float, trace_clip: float, lambda_: float
) -> None:
    rng = np.random.default_rng(seed)
    rows, pieces, sizes = sum(lengths), len(lengths), np.array(lengths)
    last = np.cumsum(sizes) - 1
    terminated, truncated = np.zeros(rows, bool), np.zeros(rows, bool)
    kinds = rng.integers(3, size=pieces)
    terminated[last[kinds == 1]], truncated[last[kinds == 2]] = True, True
    batch = SampleBatch(
        {"rewards": rng.standard_normal(rows).astype(np.float32), "terminated": terminated, "truncated": truncated},
        {"start": last - sizes + 1, "length": sizes, "bootstrap": kinds != 1},
    )
    values, last_values, log_ratios = (rng.standard_normal(n) for n in (rows, pieces, rows))
    clips = {"lambda_": lambda_, "rho_clip": rho_clip, "trace_clip": trace_clip}
    expected = returns.vtrace(batch, values, last_values, log_ratios, GAMMA, advantage_rho_clip=np.inf, **clips)
    where = returns.ends(batch)
    found = vtrace(
        tf.constant(batch["rewards"]),
        tf.constant(values),
        tf.constant(returns.successor_values(values, last_values, where)),
        tf.constant(GAMMA * where.alive),
        tf.constant(where.continues),
        tf.constant(log_ratios),
        longest=tf.constant(sizes.max()),
        **clips,
    )
    np.testing.assert_allclose(found.targets, expected.targets, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(np.exp(log_ratios) * found.errors, expected.advantages, rtol=1e-6, atol=1e-6)


@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6), seed=st.integers(0, 2**31))
@settings(deadline=None, max_examples=30)
def test_the_scan_is_the_kernels(lengths: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, sum(lengths)))
    b[np.cumsum(lengths) - 1] = 0.0
    found = backward_scan(tf.constant(a), tf.constant(b), tf.constant(max(lengths), tf.int64))
    np.testing.assert_allclose(found, returns.backward_scan(a, b), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("graph", [IMPALA, APPO])
def test_samplers_get_the_policy_alone(build: Callable[..., Any], graph: Any) -> None:
    assert build(graph).acting == {
        "policy.hidden_0.weight", "policy.hidden_0.bias", "policy.out.weight", "policy.out.bias"
    }
    shared = build(graph, model={"hidden": [8], "shared_value": True})
    assert shared.acting == frozenset(shared.get_weights())
