"""tf.pg: equal to its numpy twin and to torch.pg, traced once, resumed exactly."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlcore.batch import SampleBatch
from rlcore.errors import BatchError, ConfigError, NonFiniteError, SpaceError, UserError
from rlcore.optim import clip_by_global_norm
from rlcore.policy_graph import Actor, Progress
from rlcore.registry import load
from rlcore_tf import PolicyGradient

OBS = gymnasium.spaces.Box(-1.0, 1.0, (3,))
DISCRETE = gymnasium.spaces.Discrete(4, start=2)
BOX = gymnasium.spaces.Box(np.array([0.0, -3.0]), np.array([10.0, 1.0]), dtype=np.float64)
CASES = [
    pytest.param(DISCRETE, {}, id="categorical"),
    pytest.param(BOX, {}, id="gaussian"),
    pytest.param(BOX, {"squash": True}, id="squashed"),
    pytest.param(DISCRETE, {"model": {"hidden": (8,), "activation": "relu"}, "max_grad_norm": None}, id="relu"),
]


def make(graph: Any = PolicyGradient, action_space: Any = DISCRETE, **config: Any) -> Any:
    made = graph(OBS, action_space, graph.Config(**config), rng=np.random.default_rng(0))
    rng = np.random.default_rng(1)
    # Away from the start, where policies are nearly uniform.
    made.set_weights(
        {name: w + (0.2 * rng.standard_normal(w.shape)).astype(np.float32) for name, w in made.get_weights().items()}
    )
    return made


def batch_of(graph: Any, rows: int = 30, seed: int = 0) -> SampleBatch:
    """One episode of random observations and rewards, acted in by ``graph``."""
    rng = np.random.default_rng(seed)
    obs = rng.uniform(-1.0, 1.0, (rows, 3)).astype(np.float32)
    out = graph.act(obs, rng=rng)
    ends = np.arange(rows) == rows - 1
    table = {
        "obs": obs,
        "actions": out.actions,
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


def assert_close(one: Any, other: Any) -> None:
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-5, atol=1e-5, err_msg=name)


def test_it_is_installed_under_its_name():
    assert load("policy_graph", "tf.pg") is PolicyGradient


@pytest.mark.parametrize(("action_space", "config"), CASES)
def test_the_actor_acts_as_the_graph_does(action_space, config):
    graph = make(action_space=action_space, **config)
    actor = pickle.loads(pickle.dumps(graph.actor()))
    assert isinstance(actor, Actor)
    obs = np.random.default_rng(2).uniform(-1.0, 1.0, (50, 3)).astype(np.float32)
    for explore in (True, False):
        one = graph.act(obs, explore=explore, rng=np.random.default_rng(3))
        other = actor.act(obs, explore=explore, rng=np.random.default_rng(3))
        np.testing.assert_allclose(one.actions, other.actions, rtol=1e-5, atol=1e-5)
        assert_close(one.extras, other.extras)
    batch = batch_of(graph)
    assert np.array_equal(actor.postprocess(batch, None)["advantages"], batch["advantages"])


@pytest.mark.parametrize(("action_space", "config"), CASES)
def test_it_agrees_with_torch_pg(action_space, config):
    torch_pg = pytest.importorskip("rlcore_torch").PolicyGradient
    config = {"learning_rate": 0.01, "entropy_coeff": 0.1, **config}
    ours, theirs = make(action_space=action_space, **config), make(torch_pg, action_space, **config)
    assert_close(ours.get_weights(), theirs.get_weights())
    batch = batch_of(ours)
    assert np.array_equal(batch["advantages"], theirs.postprocess(batch)["advantages"])
    same = theirs.act(batch["obs"], rng=np.random.default_rng(4))
    assert_close(ours.act(batch["obs"], rng=np.random.default_rng(4)).extras, same.extras)
    units = np.array([3, 1, 4, 15, 9, 26])
    for chosen in (None, units):
        one, other = ours.gradients(batch, chosen), theirs.gradients(batch, chosen)
        assert_close(one.gradients, other.gradients)
        assert_close(one.stats, other.stats)
        assert one.count == other.count
    for _ in range(5):
        ours.learn(batch, units)
        theirs.learn(batch, units)
    assert_close(ours.get_weights(), theirs.get_weights())


def test_a_state_of_torch_pg_goes_on_here():
    torch_pg = pytest.importorskip("rlcore_torch").PolicyGradient
    assert PolicyGradient.Config().model_dump() == torch_pg.Config().model_dump()
    theirs = make(torch_pg, BOX)
    batch = batch_of(theirs)
    theirs.learn(batch)
    ours = make(action_space=BOX)
    ours.set_state(theirs.get_state())
    ours.learn(batch)
    theirs.learn(batch)
    assert_close(ours.get_weights(), theirs.get_weights())


def test_nothing_is_traced_anew():
    graph = make()
    batch = batch_of(graph)
    gradients = graph.gradients(batch).gradients
    graph.apply_gradients(gradients)
    graph.learn(batch)
    before = graph.traces
    assert before == 5
    rng = np.random.default_rng(0)
    for rows in (1, 2, 7, 30):
        graph.act(batch["obs"][:rows], rng=rng)
        graph.learn(batch_of(graph, rows), np.arange(rows))
        graph.on_progress(Progress(env_steps=rows))
        graph.gradients(graph.pin(batch_of(graph, rows)))
        graph.apply_gradients(gradients)
    assert graph.traces == before


def test_B076_state_goes_on_bit_by_bit():
    schedule = [[0, 0.1], [100, 0.0]]
    graph = make(learning_rate=schedule)
    batch = batch_of(graph)
    for _ in range(10):
        graph.learn(batch)
    graph.on_progress(Progress(env_steps=50))
    state = pickle.loads(pickle.dumps(graph.get_state()))
    graph.learn(batch)
    other = make(learning_rate=schedule)
    other.set_state(state)
    assert other.update_rule().learning_rate == pytest.approx(0.05)
    other.learn(batch)
    assert state["optimizer"]["step"] == 10
    for name, weight in graph.get_weights().items():
        assert np.array_equal(weight, other.get_weights()[name])
        assert not np.array_equal(weight, state["weights"][name])


def test_learning_is_applying_the_gradients():
    one, other = make(), make()
    batch = batch_of(one)
    one.learn(batch)
    other.apply_gradients(other.gradients(batch).gradients)
    assert_close(one.get_weights(), other.get_weights())
    assert_close(one.get_state()["optimizer"]["square"], other.get_state()["optimizer"]["square"])


def test_applying_gradients_is_what_the_update_rule_says():
    graph = make(max_grad_norm=0.1)
    gradients = graph.gradients(batch_of(graph)).gradients
    rule, weights = graph.update_rule(), graph.get_weights()
    state = rule.init(weights)
    for _ in range(3):
        graph.apply_gradients(gradients)
        weights, state = rule.update(weights, gradients, state)
    assert_close(graph.get_weights(), weights)


@pytest.mark.parametrize("norm", [1e-6, 1.4e-6, 1.6e-6, 1.0, 1e6])
def test_gradients_are_clipped_as_the_kernel_does(norm):
    # At norms of the size of the epsilon, which they are divided by with, it decides.
    graph = make(max_grad_norm=2e-6)
    rng = np.random.default_rng(0)
    gradients = {name: rng.standard_normal(w.shape).astype(np.float32) for name, w in graph.get_weights().items()}
    size = clip_by_global_norm(gradients, 1.0)[1]
    gradients = {name: gradient * np.float32(norm / size) for name, gradient in gradients.items()}
    graph.apply_gradients(gradients)
    clipped, _ = clip_by_global_norm(gradients, 2e-6)
    for name, mean in graph.get_state()["optimizer"]["mean"].items():
        np.testing.assert_allclose(mean, 0.1 * clipped[name], rtol=1e-5, atol=0.0)


@pytest.mark.parametrize("normalize", [True, False])
def test_advantages_are_made_once_whatever_the_minibatches(normalize):
    graph = make(normalize_advantages=normalize)
    batch = batch_of(graph)
    returns = batch["value_targets"]
    expected = (returns - returns.mean()) / returns.std() if normalize else returns
    np.testing.assert_allclose(batch["advantages"], expected, rtol=1e-5, atol=1e-6)
    units = np.array([3, 1, 7])
    loss = -np.mean(batch["action_logp"][units] * batch["advantages"][units])
    for samples in (batch, graph.pin(batch)):
        assert graph.gradients(samples, units).stats["policy_loss"] == pytest.approx(loss, rel=1e-4)


def test_B111_a_single_row_is_used_as_it_is():
    graph = make()
    batch = batch_of(graph, rows=1)
    output = graph.gradients(batch)
    assert output.stats["policy_loss"] == pytest.approx(-batch["action_logp"][0] * batch["advantages"][0], rel=1e-5)
    assert all(np.isfinite(gradient).all() for gradient in output.gradients.values())


def test_B115_what_is_not_finite_changes_nothing():
    graph = make()
    batch = batch_of(graph)
    poisoned = batch["advantages"].copy()
    poisoned[5] = np.nan
    before = graph.get_state()
    assert graph.learn(batch.with_rows(advantages=poisoned)).skipped
    gradients = graph.gradients(batch).gradients
    with pytest.raises(NonFiniteError):
        graph.apply_gradients({**gradients, "policy.out.bias": np.full(4, np.inf, np.float32)})
    after = graph.get_state()
    for part in ("mean", "square"):
        assert_close(before["optimizer"][part], after["optimizer"][part])
    assert_close(before["weights"], after["weights"])
    assert before["optimizer"]["step"] == after["optimizer"]["step"] == 0
    assert not graph.learn(batch).skipped


def test_weights_are_copies_by_canonical_name():
    graph = make(action_space=BOX)
    weights = graph.get_weights()
    assert {name: w.shape for name, w in weights.items()} == {
        "policy.hidden_0.weight": (3, 64),
        "policy.hidden_0.bias": (64,),
        "policy.hidden_1.weight": (64, 64),
        "policy.hidden_1.bias": (64,),
        "policy.out.weight": (64, 2),
        "policy.out.bias": (2,),
        "policy.log_std": (2,),
    }
    kept = {name: w.copy() for name, w in weights.items()}
    graph.learn(batch_of(graph))
    assert_close(weights, kept)
    assert set(graph.get_weights(frozenset({"policy.log_std"}))) == {"policy.log_std"}
    assert graph.acting == graph.trainable == set(weights)


def test_what_it_cannot_do_is_refused():
    def build(action_space: Any = DISCRETE, devices: tuple[str, ...] = ("cpu",), **config: Any) -> None:
        PolicyGradient(
            OBS, action_space, PolicyGradient.Config(**config), rng=np.random.default_rng(0), devices=devices
        )

    with pytest.raises(SpaceError, match="Sequence"):
        build(gymnasium.spaces.Sequence(DISCRETE))
    with pytest.raises(SpaceError, match="cannot rescale an unbounded box"):
        build(gymnasium.spaces.Box(-np.inf, np.inf, (2,)), squash=True)
    with pytest.raises(ConfigError, match="nature"):
        build(model={"encoder": "nature"})
    with pytest.raises(UserError, match="at least one device"):
        build(devices=())
    with pytest.raises(UserError, match="knows no device 'tpu9'"):
        build(devices=("tpu9",))
    with pytest.raises(UserError, match="device 'cuda:99' was asked for"):
        build(devices=("cuda:99",))
    graph = make()
    batch = batch_of(graph)
    with pytest.raises(UserError, match="no sample"):
        graph.learn(batch, np.zeros(0, np.int64))
    with pytest.raises(UserError, match="unknown weights nonsense"):
        graph.set_weights({"nonsense": np.zeros(1)})
    with pytest.raises(UserError, match="gradients are missing for policy"):
        graph.apply_gradients({"policy.out.bias": np.zeros(4, np.float32)})
    squashed = make(action_space=BOX, squash=True)
    rows = {name: column for name, column in batch_of(squashed).rows.items() if name != "pre_tanh"}
    with pytest.raises(BatchError, match="pre_tanh"):
        squashed.learn(SampleBatch(rows, batch.cuts))
