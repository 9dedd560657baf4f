"""Every action and observation space: the torch distributions, graphs and their actors, masks, and learning."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from hypothesis import given, settings
from hypothesis import strategies as st
from support.spaces import ACTIONS, OBSERVATIONS, SQUASHED, Mirror, action_spaces, samples

from rlcore import Fragment, PolicyEvaluator
from rlcore.acting import distribution_for
from rlcore.batch import ACTION_LOGP, SampleBatch
from rlcore.columns import to_table
from rlcore.errors import NoLegalActionError, SpaceError
from rlcore.graph_spec import RemarkWarning
from rlcore.policy_graph import ActRows, PolicyGraph
from rlcore_torch import A3C, APPO, IMPALA, PPO, PolicyGradient
from rlcore_torch.distributions import counterpart, without

Build = Callable[..., Any]

GRAPHS = [PolicyGradient, A3C, PPO, IMPALA, APPO]
CASES = [(name, False) for name in ACTIONS] + [(name, True) for name in SQUASHED]
OBS = Box(-1.0, 1.0, (3,), np.float32)


def evaluated(distribution: Any, params: Any, draw: Any, allowed: Any = None) -> Any:
    """What torch makes of the kernel's draw from ``params``, whose free ones are the same in each row."""
    own, split = counterpart(distribution), distribution.outputs
    log_std = torch.tensor(params[0, split:]) if distribution.free else None
    forbidden = None
    if allowed is not None:
        forbidden = torch.zeros(len(params), split, dtype=torch.bool)
        forbidden[:, distribution.logits] = torch.tensor(~allowed)
    outputs = without(torch.tensor(params[:, :split]), forbidden)
    return own.evaluate(outputs, log_std, torch.tensor(distribution.sampled(draw.actions, draw.extras)))


def some_params(distribution: Any, rows: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    params = rng.standard_normal((rows, distribution.parameters)).astype(np.float32)
    params[:, distribution.outputs :] = rng.uniform(-1.0, 0.5, distribution.free)
    return params


def some_flags(distribution: Any, rows: int, rng: np.random.Generator) -> Any:
    """Flags of options at random, at least one for each choice."""
    choices = np.array(distribution.choices)
    allowed = rng.random((rows, choices.sum())) < 0.4
    starts = np.cumsum(choices) - choices
    allowed[np.arange(rows)[:, None], starts + rng.integers(choices, size=(rows, len(choices)))] = True
    return allowed


@settings(max_examples=60, deadline=None)
@given(action_spaces(), st.booleans(), st.booleans(), st.integers(0, 2**32 - 1))
def test_log_probabilities_and_entropies_are_the_kernels(space: Any, squash: bool, mask: bool, seed: int) -> None:
    distribution = distribution_for(space, squash)
    rng = np.random.default_rng(seed)
    params, allowed = some_params(distribution, 6, seed), None
    seen = params
    if mask and distribution.choices:
        allowed = some_flags(distribution, 6, rng)
        seen = distribution.masked(params, allowed)
    draw = distribution.draw(seen, rng)
    found = evaluated(distribution, params, draw, allowed)
    np.testing.assert_allclose(found.log_probs[:, 0], draw.logp, rtol=1e-5, atol=2e-5)
    assert -found.negative_entropy.item() == pytest.approx(distribution.entropy(seen).sum(), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize(("name", "squash"), CASES)
def test_gradients_are_finite_differences(name: str, squash: bool) -> None:
    distribution = distribution_for(ACTIONS[name], squash)
    own = counterpart(distribution)
    params = some_params(distribution, 3, 0)
    draw = distribution.draw(params, np.random.default_rng(1))
    actions = torch.tensor(distribution.sampled(draw.actions, draw.extras))
    actions = actions.double() if actions.is_floating_point() else actions
    outputs = torch.tensor(params[:, : distribution.outputs]).double().requires_grad_()
    free = torch.tensor(params[0, distribution.outputs :]).double().requires_grad_()

    def both(outputs: torch.Tensor, free: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return tuple(own.evaluate(outputs, free if distribution.free else None, actions))

    inputs = (outputs, free) if distribution.free else (outputs, free.detach())
    assert torch.autograd.gradcheck(both, inputs, atol=1e-4, rtol=1e-3)


def test_masked_logits_get_no_gradient_and_make_no_nan() -> None:
    distribution = distribution_for(MultiDiscrete([3, 2]), squash=False)
    logits = torch.tensor([[50.0, -2.0, 1.0, 0.0, 3.0]], requires_grad=True)
    forbidden = torch.tensor([[True, False, False, False, True]])
    found = counterpart(distribution).evaluate(without(logits, forbidden), None, torch.tensor([[2, 0]]))
    assert found.log_probs.item() == pytest.approx(-np.log1p(np.exp(-3.0)), abs=1e-6)
    (found.log_probs.sum() + found.negative_entropy).backward()
    gradient = logits.grad
    assert gradient is not None and torch.isfinite(gradient).all()
    assert gradient[forbidden].tolist() == [0.0, 0.0] and gradient[0, 1] != 0.0


def agree(own: Any, obs: Any) -> None:
    """Graph and actor, drawing and not, to 1e-5."""
    actor = pickle.loads(pickle.dumps(own.actor()))
    for explore in (True, False):
        ours = own.act(obs, explore=explore, rng=np.random.default_rng(2))
        theirs = actor.act(obs, explore=explore, rng=np.random.default_rng(2))
        table, other = to_table("actions", ours.actions), to_table("actions", theirs.actions)
        assert table.keys() == other.keys() and ours.extras.keys() == theirs.extras.keys()
        for name, column in {**table, **ours.extras}.items():
            expected = {**other, **theirs.extras}[name]
            np.testing.assert_allclose(column, expected, rtol=1e-5, atol=1e-5, err_msg=name)
            assert column.dtype == expected.dtype


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(("name", "squash"), CASES)
def test_actor_and_graph_agree_in_every_action_space(
    build: Build, graph: type[PolicyGraph], name: str, squash: bool
) -> None:
    own = build(graph, ACTIONS[name], observation_space=OBS, squash=squash, initial_log_std=-0.5)
    agree(own, samples(OBS, 50))


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_actor_and_graph_agree_on_every_observation_space(build: Build, name: str) -> None:
    space = OBSERVATIONS[name]
    own = build(PPO, ACTIONS["nested"], observation_space=space)
    agree(own, samples(space, 20))
    obs = samples(space, 20)
    np.testing.assert_allclose(own.values(obs), own.actor().values(obs), rtol=1e-5, atol=1e-5)


def test_scale_reaches_graph_and_actor(build: Build) -> None:
    space = OBSERVATIONS["image"]
    scaled = build(PPO, observation_space=space)
    raw = build(PPO, observation_space=space, model={"scale": {"obs": False}})
    obs = samples(space, 5)
    for one in (scaled, raw):
        np.testing.assert_allclose(one.values(obs), one.actor().values(obs), rtol=1e-4, atol=1e-4)
    assert abs(scaled.values(obs) - raw.values(obs)).max() > 1e-3


def sampled(graph: type[PolicyGraph], acted: Any, squash: bool, steps: int = 16, **settings: Any) -> Any:
    source = PolicyEvaluator(
        env=lambda: Mirror(OBS, acted),
        graph=graph,
        config={"squash": squash, **settings},
        num_envs=4,
        collect=Fragment(steps),
        rng=3,
    )
    batch = source.sample()
    source.close()
    assert isinstance(batch, SampleBatch)
    return source.policies["default"], batch


@pytest.mark.parametrize(("name", "squash"), CASES)
def test_B094_the_ratio_is_1_where_the_graph_itself_acted(name: str, squash: bool) -> None:
    graph, batch = sampled(PPO, ACTIONS[name], squash)
    np.testing.assert_allclose(np.exp(graph.log_probs(batch) - batch[ACTION_LOGP]), 1.0, atol=1e-5)
    stats = graph.learn(batch).stats
    assert stats["clip_fraction"] == 0.0 and abs(stats["kl"]) < 1e-10


@pytest.mark.parametrize(("name", "squash"), CASES)
def test_B094_the_ratio_is_exactly_1_for_the_rows_of_one_act(build: Build, name: str, squash: bool) -> None:
    own = build(PPO, ACTIONS[name], observation_space=OBS, squash=squash)
    obs = samples(OBS, 64)
    out = own.act(obs, rng=np.random.default_rng(0))
    batch = SampleBatch(
        {"obs": obs, **to_table("actions", out.actions), **out.extras},
        {"start": np.zeros(1, np.int64), "length": np.array([64])},
    )
    assert (np.exp(own.log_probs(batch) - batch[ACTION_LOGP]) == 1.0).all()


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(("name", "squash"), CASES)
def test_it_learns_in_every_space(graph: type[PolicyGraph], name: str, squash: bool) -> None:
    own, batch = sampled(graph, ACTIONS[name], squash, steps=4)
    before = own.get_weights()
    for _ in range(3):
        output = own.learn(batch)
        assert not output.skipped and np.isfinite(list(output.stats.values())).all()
    moved = any(not np.array_equal(before[key], weight) for key, weight in own.get_weights().items())
    # Where there is one action there is no policy to learn, only values.
    assert moved or (name, graph) == ("discrete_from_2", PolicyGradient)


def test_recorded_updates_are_those_of_autograd_in_a_nested_space() -> None:
    one, batch = sampled(PPO, ACTIONS["nested"], squash=True, steps=4)
    other, _ = sampled(PPO, ACTIONS["nested"], squash=True, steps=4)
    other._backward_pass.differentiate._due = lambda key: False  # never records
    for _ in range(40):
        one.learn(batch)
        other.learn(batch)
    assert one._backward_pass.differentiate._proven and not other._backward_pass.differentiate._proven
    for key, weight in one.get_weights().items():
        assert np.array_equal(weight, other.get_weights()[key])


class Masked(Mirror):
    """Legal options at random; a nested action with a continuous part."""

    def __init__(self) -> None:
        acted = Dict(arm=Box(-1, 1, (2,), np.float32), hand=Discrete(3, start=4), keys=MultiBinary(2))
        mask = Dict(hand=Box(0, 1, (3,), np.int8), keys=Box(0, 1, (2, 2), np.int8))
        super().__init__(Dict(action_mask=mask, features=OBS), acted)

    def observe(self) -> Any:
        self.hand = int(self.np_random.integers(1, 8))
        self.keys = self.np_random.integers(1, 4, 2)
        mask = {
            "hand": np.array([self.hand >> i & 1 for i in range(3)], np.int8),
            "keys": np.array([[key & 1, key >> 1] for key in self.keys], np.int8),
        }
        return {"features": self.np_random.random(3, np.float32), "action_mask": mask}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        assert self.hand >> int(action["hand"]) - 4 & 1
        assert all(key >> int(bit) & 1 for key, bit in zip(self.keys, action["keys"], strict=True))
        self.t += 1
        return self.observe(), float(action["arm"][0] > 0), self.t == 6, False, {}


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("squash", [False, True])
def test_masks_hold_while_it_learns(graph: type[PolicyGraph], squash: bool) -> None:
    source = PolicyEvaluator(
        env=Masked, graph=graph, config={"squash": squash}, num_envs=4, collect=Fragment(25), rng=1
    )
    own: Any = source.policies["default"]
    for _ in range(3):
        batch: Any = source.sample()
        stats = own.gradients(batch).stats
        assert stats.get("clip_fraction", 0.0) == 0.0 and abs(stats.get("kl", 0.0)) < 1e-8
        assert not own.learn(batch).skipped
    agree(own, batch.obs)
    source.close()


def test_B104_a_mask_that_allows_nothing(build: Build) -> None:
    space = Dict(action_mask=Box(0, 1, (3,), np.int8), features=OBS)
    own = build(PPO, Discrete(3), observation_space=space)
    obs = {"features": np.zeros((2, 3), np.float32), "action_mask": np.array([[1, 0, 0], [0, 0, 0]])}
    rows = ActRows(np.array([3, 4]), np.zeros(2, np.int32), np.array([8, 9]), np.zeros(2, np.bool_))
    for one in (own, own.actor()):
        with pytest.raises(NoLegalActionError, match="slot 4, step 9 of its episode"):
            one.act(obs, rows=rows, rng=np.random.default_rng(0))
    with pytest.raises(SpaceError, match="action_mask has 3 flags"):
        build(PPO, Discrete(4), observation_space=space)


def test_B106_B107_ten_thousand_masked_actions(build: Build) -> None:
    space = Dict(action_mask=Box(0, 1, (10_000,), np.int8), features=OBS)
    own = build(PPO, Discrete(10_000), observation_space=space, model={"hidden": [4]})
    bias = np.zeros(10_000, np.float32)
    bias[[0, 77, 5000]] = [9.0, 3.0, 2.0]
    own.set_weights({"policy.out.bias": bias})
    allowed = np.random.default_rng(0).random((5, 10_000)) < 0.5
    allowed[:, [0, 77, 5000]] = [False, True, True]
    obs = {"features": np.zeros((5, 3), np.float32), "action_mask": allowed.astype(np.int8)}
    drawn = own.act(obs, rng=np.random.default_rng(0)).actions
    assert allowed[np.arange(5), drawn].all()
    assert own.act(obs, explore=False, rng=np.random.default_rng(0)).actions.tolist() == [77] * 5


def test_B099_B100_what_is_assumed_of_images_is_said(caplog: Any) -> None:
    class Pictures(Mirror):
        def __init__(self) -> None:
            images = Dict(a=Box(0, 255, (4, 4, 3), np.uint8), b=Box(0, 255, (4, 4, 3), np.float32))
            super().__init__(images, Discrete(2))

    with caplog.at_level(logging.INFO, "rlcore"), pytest.warns(RemarkWarning, match="'b'") as issued:
        PolicyEvaluator(env=Pictures, graph=PPO, rng=0).close()
    assert len(issued) == 1 and len(caplog.records) == 1
    caplog.clear()
    config = {"model": {"scale": {"a": False, "b": True}}}
    with caplog.at_level(logging.INFO, "rlcore"):
        PolicyEvaluator(env=Pictures, graph=PPO, config=config, rng=0).close()
    assert not caplog.records


def test_a_tuple_of_one_part_is_not_a_plain_space(build: Build) -> None:
    own = build(PPO, Tuple([Discrete(3)]), observation_space=OBS)
    out = own.act(samples(OBS, 2), rng=np.random.default_rng(0))
    assert list(out.actions) == ["0"] and out.actions["0"].shape == (2,)


def test_a_gymnasium_environment_with_nested_spaces_from_end_to_end() -> None:
    gymnasium.register("Mirror-v0", lambda: Mirror(OBSERVATIONS["nested"], ACTIONS["nested"]))
    try:
        source = PolicyEvaluator(env="Mirror-v0", graph=A3C, num_envs=2, collect=Fragment(12), rng=0)
        batch: Any = source.sample()
        assert set(to_table("actions", batch.actions)) == {
            "actions.arm.0",
            "actions.arm.1",
            "actions.hand.grip",
            "actions.hand.fingers",
            "actions.mode",
        }
        policy: Any = source.policies["default"]
        assert not policy.learn(batch).skipped
        source.close()
    finally:
        del gymnasium.registry["Mirror-v0"]
