"""numpy.pg: its hand-written gradients, its state, and that it learns."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.batch import SampleBatch
from rlcore.columns import to_table
from rlcore.errors import NonFiniteError, SpaceError, UserError
from rlcore.policy_graph import Actor, Progress
from rlcore.registry import load
from rlcore.testing import LinearPG, TwoAgentEnv

OBS = gymnasium.spaces.Box(-1.0, 1.0, (3,))
DISCRETE = gymnasium.spaces.Discrete(4, start=2)
BOX = gymnasium.spaces.Box(-1.0, 1.0, (2, 1))
MULTI = gymnasium.spaces.MultiDiscrete([[2, 3], [1, 2]])
MIXED = gymnasium.spaces.Dict(a=BOX, b=gymnasium.spaces.Tuple([MULTI, gymnasium.spaces.MultiBinary(2)]), c=BOX)


def make(action_space: Any = DISCRETE, **config: Any) -> LinearPG:
    return LinearPG(OBS, action_space, LinearPG.Config(**config), rng=np.random.default_rng(0))


def moved(graph: Any, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    graph.set_weights(
        {name: (0.3 * rng.standard_normal(w.shape)).astype(np.float32) for name, w in graph.get_weights().items()}
    )
    return graph


def batch_of(graph: Any, rows: int = 12, seed: int = 0) -> SampleBatch:
    """One episode of observations, drawn actions, and rewards that are random."""
    rng = np.random.default_rng(seed)
    obs = rng.uniform(-1.0, 1.0, (rows, 3)).astype(np.float32)
    out = graph.act(obs, rng=rng)
    ends = np.arange(rows) == rows - 1
    table = {
        "obs": obs,
        **to_table("actions", out.actions),
        "rewards": rng.standard_normal(rows).astype(np.float32),
        "terminated": ends,
        "truncated": np.zeros(rows, np.bool_),
        **out.extras,
    }
    cuts = {
        "start": np.zeros(1, np.int64),
        "length": np.array([rows]),
        "bootstrap": np.zeros(1, np.bool_),
        "last_obs": obs[:1],
    }
    return graph.postprocess(SampleBatch(table, cuts))


def test_it_is_installed_under_its_name():
    assert load("policy_graph", "numpy.pg") is LinearPG


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([DISCRETE, BOX, MULTI, MIXED]), st.integers(0, 100), st.sampled_from([0.0, 0.3]), st.booleans())
def test_gradients_are_those_of_the_loss(action_space, seed, entropy_coeff, normalise):
    graph = moved(make(action_space, entropy_coeff=entropy_coeff, normalize_advantages=normalise), seed)
    pinned = graph.pin(batch_of(graph, seed=seed))
    units = np.array([0, 3, 4, 9])
    weights, gradients = graph.get_weights(), graph.gradients(pinned, units).gradients
    assert gradients.keys() == weights.keys()
    for name, weight in weights.items():
        for index in np.ndindex(weight.shape):
            losses = []
            for step in (1e-2, -1e-2):
                shifted = weight.copy()
                shifted[index] += step / (40.0 if name.endswith("weight") else 1.0)
                graph.set_weights({name: shifted})
                losses.append(graph.gradients(pinned, units).stats["loss"])
            graph.set_weights({name: weight})
            slope = (losses[0] - losses[1]) / (2e-2 / (40.0 if name.endswith("weight") else 1.0))
            assert gradients[name][index] == pytest.approx(slope, rel=2e-2, abs=2e-2)


@pytest.mark.parametrize("action_space", [DISCRETE, BOX])
def test_it_agrees_with_torch_pg(action_space):
    torch_pg = pytest.importorskip("rlcore_torch").PolicyGradient
    settings = {"entropy_coeff": 0.1, "learning_rate": 0.05}
    ours = moved(make(action_space, feature_scale=1.0, **settings))
    model = {"hidden": ()}
    theirs = torch_pg(OBS, action_space, torch_pg.Config(model=model, **settings), rng=np.random.default_rng(0))
    theirs.set_weights(ours.get_weights())
    batch = batch_of(ours)
    assert np.array_equal(batch["advantages"], theirs.postprocess(batch)["advantages"])
    one, other = ours.gradients(batch), theirs.gradients(batch)
    assert one.gradients.keys() == other.gradients.keys()
    for name, gradient in one.gradients.items():
        assert gradient == pytest.approx(other.gradients[name], abs=1e-5)
    assert one.stats == pytest.approx(other.stats, abs=1e-5)
    for _ in range(3):
        ours.learn(batch)
        theirs.learn(batch)
    for name, weight in ours.get_weights().items():
        assert weight == pytest.approx(theirs.get_weights()[name], abs=1e-5)


@pytest.mark.parametrize("action_space", [DISCRETE, BOX])
def test_the_actor_acts_as_the_graph_does(action_space):
    graph = moved(make(action_space))
    actor = pickle.loads(pickle.dumps(graph.actor()))
    assert isinstance(actor, Actor)
    obs = np.random.default_rng(1).uniform(-1.0, 1.0, (50, 3)).astype(np.float32)
    for explore in (True, False):
        one = graph.act(obs, explore=explore, rng=np.random.default_rng(2))
        other = actor.act(obs, explore=explore, rng=np.random.default_rng(2))
        assert np.array_equal(one.actions, other.actions)
        assert np.array_equal(one.extras["action_logp"], other.extras["action_logp"])
    batch = batch_of(graph)
    assert np.array_equal(actor.postprocess(batch, None)["advantages"], graph.postprocess(batch)["advantages"])


def test_advantages_are_normalised_over_the_sample_whatever_the_minibatches():
    graph = moved(make())
    batch = batch_of(graph)
    returns = make(normalize_advantages=False).postprocess(batch)
    assert np.array_equal(returns["advantages"], returns["value_targets"])
    assert np.array_equal(batch["value_targets"], returns["value_targets"])
    expected = (returns["advantages"] - returns["advantages"].mean()) / returns["advantages"].std()
    np.testing.assert_allclose(batch["advantages"], expected, rtol=1e-5, atol=1e-6)
    units = np.array([3, 1, 7])
    for samples in (batch, graph.pin(batch)):
        part = graph.gradients(samples, units)
        assert part.stats["policy_loss"] == pytest.approx(
            -np.mean(batch["action_logp"][units] * batch["advantages"][units]), rel=1e-4
        )


def test_B076_state_goes_on_bit_by_bit():
    graph = moved(make(learning_rate=[[0, 0.1], [100, 0.0]]))
    batch = batch_of(graph)
    for _ in range(10):
        graph.learn(batch)
    graph.on_progress(Progress(env_steps=50))
    state = pickle.loads(pickle.dumps(graph.get_state()))
    graph.learn(batch)
    other = make(learning_rate=[[0, 0.1], [100, 0.0]])
    other.set_state(state)
    assert other.update_rule().learning_rate == pytest.approx(0.05)
    other.learn(batch)
    for name, weight in graph.get_weights().items():
        assert np.array_equal(weight, other.get_weights()[name])
    assert not np.array_equal(state["weights"]["policy.out.weight"], graph.get_weights()["policy.out.weight"])


def test_B111_a_single_row_is_used_as_it_is():
    graph = moved(make())
    batch = batch_of(graph, rows=1)
    output = graph.gradients(batch)
    assert output.count == 1
    assert output.stats["policy_loss"] == pytest.approx(-batch["action_logp"][0] * batch["advantages"][0], rel=1e-5)


def test_B115_a_reward_that_is_not_a_number_changes_nothing():
    graph = moved(make())
    batch = batch_of(graph)
    advantages = batch["advantages"].copy()
    advantages[5] = np.nan
    before = graph.get_state()
    output = graph.learn(batch.with_rows(advantages=advantages))
    assert output.skipped
    after = graph.get_state()
    assert np.array_equal(before["weights"]["policy.out.weight"], after["weights"]["policy.out.weight"])
    assert before["optimizer"]["step"] == after["optimizer"]["step"] == 0
    with pytest.raises(NonFiniteError):
        graph.apply_gradients({"policy.out.bias": np.full(4, np.inf, np.float32)})


def test_applying_gradients_is_what_the_update_rule_says():
    graph = moved(make())
    gradients = graph.gradients(batch_of(graph)).gradients
    weights, rule = graph.get_weights(), graph.update_rule()
    expected, _ = rule.update(weights, gradients, rule.init(weights))
    graph.apply_gradients(gradients)
    for name, weight in graph.get_weights().items():
        assert np.array_equal(weight, expected[name])


def test_what_it_cannot_do_is_refused():
    with pytest.raises(SpaceError, match="Sequence"):
        make(gymnasium.spaces.Sequence(gymnasium.spaces.Discrete(2)))
    with pytest.raises(UserError, match="cpu only, not on cuda:0"):
        LinearPG(OBS, DISCRETE, LinearPG.Config(), rng=np.random.default_rng(0), devices=("cuda:0",))
    with pytest.raises(UserError, match="unknown weights nonsense"):
        make().set_weights({"nonsense": np.zeros(1)})
    with pytest.raises(UserError, match="no sample"):
        graph = make()
        graph.gradients(batch_of(graph), np.zeros(0, np.int64))
    with pytest.raises(UserError, match="has no utility 'fly'"):
        make().actor().call("fly")


def test_two_agents_learn_their_own_tasks():
    env = TwoAgentEnv(16, lengths=(4, 4))
    graphs = [
        LinearPG(*env.groups["default"], LinearPG.Config(gamma=0.0), rng=np.random.default_rng(0)) for _ in range(2)
    ]
    rng = np.random.default_rng(0)
    env.reset(0)
    step = env.poll(None)["default"]
    for _ in range(40):
        obs = np.array(step.obs)
        rows = [np.flatnonzero(step.agent_id == agent) for agent in ("left", "right")]
        outs = [graph.act(obs[own], rng=rng) for graph, own in zip(graphs, rows, strict=True)]
        actions = np.zeros(len(obs), np.int64)
        for own, out in zip(rows, outs, strict=True):
            actions[own] = out.actions
        env.send({"default": (step.slot, actions)})
        step = env.poll(None)["default"]
        for graph, own, out in zip(graphs, rows, outs, strict=True):
            graph.learn(one_step(obs[own], out, step.reward[own]))
    assert step.reward.mean() > 0.9


def one_step(obs: Any, out: Any, reward: Any) -> SampleBatch:
    n = len(obs)
    rows = {"obs": obs, "actions": out.actions, "advantages": np.array(reward, np.float32)}
    return SampleBatch(rows, {"start": np.arange(n), "length": np.ones(n, np.int64)})


def test_unpickling_an_actor_imports_no_framework(tmp_path):
    path = tmp_path / "actor.pickle"
    path.write_bytes(pickle.dumps(make().actor()))
    code = (
        f"import pickle, sys; pickle.load(open({str(path)!r}, 'rb'));"
        "print([name for name in ('torch', 'tensorflow', 'ray') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
