"""Several choices at once, nested actions and action masks: equal to the numpy twin and to torch.pg."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from hypothesis import given, settings
from hypothesis import strategies as st
from support.spaces import ACTIONS, SQUASHED, samples

from rlcore.acting import distribution_for
from rlcore.batch import ACTION_LOGP, SampleBatch
from rlcore.columns import Columns, to_table
from rlcore.errors import BatchError, NoLegalActionError
from rlcore_tf import PolicyGradient
from rlcore_tf.backend import tf
from rlcore_tf.distributions import counterpart, without

FEATURES = Box(-1.0, 1.0, (3,), np.float32)
MASKED = Dict(action_mask=Dict(hand=Box(0, 1, (3,), np.int8), keys=Box(0, 1, (2, 2), np.int8)), features=FEATURES)
NESTED = Dict(arm=Box(-2.0, 1.0, (2,), np.float32), hand=Discrete(3, start=4), keys=MultiBinary(2))
CASES = [
    pytest.param(FEATURES, MultiDiscrete([[2, 2], [3, 2]]), {}, id="several choices"),
    pytest.param(FEATURES, ACTIONS["nested"], {"squash": True}, id="nested"),
    pytest.param(MASKED, NESTED, {}, id="masked"),
]


def make(graph: Any, observation_space: Any, action_space: Any, **config: Any) -> Any:
    made = graph(observation_space, action_space, graph.Config(**config), rng=np.random.default_rng(0))
    rng = np.random.default_rng(1)
    made.set_weights(
        {name: w + (0.2 * rng.standard_normal(w.shape)).astype(np.float32) for name, w in made.get_weights().items()}
    )
    return made


def observations(space: Any, rows: int) -> Columns:
    """At random; the last option of each choice is always legal."""
    obs = samples(space, rows)
    if isinstance(obs, dict):
        for name in obs:
            if name.startswith("action_mask"):
                obs[name][..., -1] = 1
    return obs


def assert_close(one: Any, other: Any) -> None:
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(("observation_space", "action_space", "config"), CASES)
def test_it_agrees_with_its_actor_and_with_torch_pg(
    observation_space: Any, action_space: Any, config: dict[str, Any]
) -> None:
    torch_pg = pytest.importorskip("rlcore_torch").PolicyGradient
    config = {"learning_rate": 0.01, "entropy_coeff": 0.1, **config}
    ours = make(PolicyGradient, observation_space, action_space, **config)
    theirs = make(torch_pg, observation_space, action_space, **config)
    obs = observations(observation_space, 30)
    for explore in (True, False):
        outs = [
            one.act(obs, explore=explore, rng=np.random.default_rng(3)) for one in (ours, ours.actor(), theirs)
        ]
        for other in outs[1:]:
            assert_close(to_table("actions", outs[0].actions), to_table("actions", other.actions))
            assert_close(outs[0].extras, other.extras)
    out = ours.act(obs, rng=np.random.default_rng(3))
    rows = {**to_table("obs", obs), **to_table("actions", out.actions), **out.extras}
    rows["advantages"] = np.random.default_rng(4).standard_normal(30).astype(np.float32)
    batch = SampleBatch(rows, {"start": np.zeros(1, np.int64), "length": np.array([30])})
    for units in (None, np.array([3, 1, 4, 15, 9, 26])):
        one, other = ours.gradients(batch, units), theirs.gradients(batch, units)
        assert_close(one.gradients, other.gradients)
        assert_close(one.stats, other.stats)
        assert all(np.isfinite(gradient).all() for gradient in one.gradients.values())
    for _ in range(3):
        assert not ours.learn(batch).skipped
        theirs.learn(batch)
    assert_close(ours.get_weights(), theirs.get_weights())
    assert ours.traces == 4


@pytest.mark.parametrize(
    ("observation_space", "action_space", "config"),
    [*CASES, *[pytest.param(FEATURES, ACTIONS[name], {"squash": name in SQUASHED}, id=name) for name in ACTIONS]],
)
@pytest.mark.parametrize("explore", [True, False])
def test_B094_the_ratio_is_exactly_1_for_the_rows_of_one_act(
    observation_space: Any, action_space: Any, config: dict[str, Any], explore: bool
) -> None:
    ours = make(PolicyGradient, observation_space, action_space, **config)
    obs = observations(observation_space, 64)
    out = ours.act(obs, explore=explore, rng=np.random.default_rng(0))
    batch = SampleBatch(
        {**to_table("obs", obs), **to_table("actions", out.actions), **out.extras},
        {"start": np.zeros(1, np.int64), "length": np.array([64])},
    )
    assert (np.exp(ours.log_probs(batch) - batch[ACTION_LOGP]) == 1.0).all()
    assert out.extras[ACTION_LOGP].dtype == np.float32


def test_B104_a_mask_that_allows_nothing() -> None:
    graph = make(PolicyGradient, MASKED, NESTED)
    obs: Any = observations(MASKED, 2)
    obs["action_mask.hand"][1] = 0
    with pytest.raises(NoLegalActionError, match=r"row 1: .* for choice 0 of 3"):
        graph.act(obs, rng=np.random.default_rng(0))


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from([(name, False) for name in ACTIONS] + [(name, True) for name in SQUASHED]),
    st.booleans(),
    st.integers(0, 99),
)
def test_log_probabilities_and_entropies_are_the_kernels(case: Any, mask: bool, seed: int) -> None:
    distribution = distribution_for(ACTIONS[case[0]], case[1])
    own, rng = counterpart(distribution), np.random.default_rng(seed)
    params = rng.standard_normal((6, distribution.parameters)).astype(np.float32)
    params[:, distribution.outputs :] = rng.uniform(-1.0, 0.5, distribution.free)
    outputs, seen = tf.constant(params[:, : distribution.outputs]), params
    if mask and distribution.choices:
        allowed = rng.random((6, sum(distribution.choices))) < 0.4
        allowed[:, np.cumsum(distribution.choices) - 1] = True
        forbidden = np.zeros((6, distribution.outputs), np.bool_)
        forbidden[:, distribution.logits] = ~allowed
        seen, outputs = distribution.masked(params, allowed), without(outputs, forbidden)
    draw = distribution.draw(seen, rng)
    taken = distribution.sampled(draw.actions, draw.extras)
    assert taken.shape == (6, *own.shape) and taken.dtype == own.dtype.as_numpy_dtype
    found = own.evaluate(outputs, tf.constant(params[0, distribution.outputs :]), tf.constant(taken))
    np.testing.assert_allclose(found.log_probs.numpy(), draw.logp, rtol=1e-5, atol=2e-5)
    assert -float(found.negative_entropy) / 6 == pytest.approx(distribution.entropy(seen).mean(), rel=1e-4, abs=1e-4)


def test_squashed_parts_come_with_their_samples() -> None:
    distribution = distribution_for(ACTIONS["nested"], squash=True)
    params = np.zeros((2, distribution.parameters), np.float32)
    with pytest.raises(BatchError, match=r"needs the columns pre_tanh.arm.0, pre_tanh.arm.1"):
        distribution.sampled(distribution.mode(params).actions, {})
