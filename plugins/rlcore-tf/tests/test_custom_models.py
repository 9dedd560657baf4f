"""Models of the user's own: Keras layers named by import path."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

import rlcore
from rlcore.batch import SampleBatch
from rlcore.errors import CheckpointError, ConfigError, PluginError, UserError
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import PIECE, ROW
from rlcore.sampling.collect import Fragment
from rlcore.testing.environments import Count
from rlcore.trainer import Trainer
from rlcore_tf import A3C, APPO, IMPALA, PPO, PolicyGradient
from rlcore_tf.backend import tf

Build = Callable[..., Any]
VECTOR = Box(-1.0, 1.0, (4,), np.float32)
GRAPHS = [PolicyGradient, A3C, PPO, IMPALA, APPO]
each_graph = pytest.mark.parametrize("graph", GRAPHS)


class Plain(keras.Model):
    """One layer; values are left to rlcore. ``shift`` is not trained, and nor is ``count``, of whole numbers."""

    def __init__(self, space: Box, width: int = 6) -> None:
        super().__init__(name="plain")
        self.layer = keras.layers.Dense(width, activation="tanh")
        self.shift = self.add_weight(name="shift", shape=(width,), initializer=lambda *a, **k: tf.fill((width,), 0.5),
                                     trainable=False)
        self.count = self.add_weight(name="count", shape=(), dtype="int32", initializer="ones", trainable=False)

    def call(self, obs: Any, state: Any) -> Any:
        return self.layer(obs) + self.shift, None, state


class Critic(Plain):
    """With values of its own."""

    def __init__(self, space: Box, width: int = 6) -> None:
        super().__init__(space, width)
        self.critic = keras.layers.Dense(1, name="critic")

    def call(self, obs: Any, state: Any) -> Any:
        return super().call(obs, state)[0], self.critic(obs)[:, 0], state


class Sums(keras.layers.Layer):
    """Its state is the sum of the observations so far, and 5 to begin with: what it should be can be said."""

    def __init__(self, space: Box) -> None:
        super().__init__(name="sums")
        self.size = space.shape[0]
        self.weight = self.add_weight(name="weight", shape=(self.size,), initializer="ones")

    def initial_state(self, n: int) -> Any:
        return (tf.fill((n, self.size), 5.0),)

    def call(self, obs: Any, state: Any) -> Any:
        after = state[0] + obs
        return after * self.weight, tf.reduce_sum(after, axis=1), (after,)


class Cell(keras.Model):
    """A GRU."""

    def __init__(self, space: Box) -> None:
        super().__init__(name="own")
        self.cell = keras.layers.GRUCell(5)

    def initial_state(self, n: int) -> Any:
        return (tf.zeros((n, 5)),)

    def call(self, obs: Any, state: Any) -> Any:
        after, _ = self.cell(obs, state)
        return after, None, (after,)


class Statistics(keras.Model):
    """What would move in training mode, and a variable that it writes into."""

    def __init__(self, space: Box) -> None:
        super().__init__(name="own")
        self.norm, self.drop = keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)
        self.layer = keras.layers.Dense(5)
        self.seen = self.add_weight(name="seen", shape=(), initializer="zeros", trainable=False)

    def call(self, obs: Any, state: Any) -> Any:
        self.seen.assign_add(1.0)
        return self.layer(self.drop(self.norm(obs))) + self.seen, None, state


class Tied(keras.Model):
    """One layer is used twice, another is not to be learnt, and one number is no vector."""

    def __init__(self, space: Box) -> None:
        super().__init__(name="own")
        self.one, self.frozen = keras.layers.Dense(4), keras.layers.Dense(4, trainable=False)
        self.scale = self.add_weight(name="scale", shape=(), initializer="ones")

    def call(self, obs: Any, state: Any) -> Any:
        return self.frozen(tf.tanh(self.one(self.one(obs)))) * self.scale, None, state


class Parts(keras.Model):
    """Reads a nested observation by its leaves."""

    def __init__(self, space: Dict) -> None:
        super().__init__()
        self.eye, self.rest = keras.layers.Conv2D(2, 3), keras.layers.Dense(3)

    def call(self, obs: Any, state: Any) -> Any:
        assert set(obs) == {"eye", "place", "kind", "kinds"}, sorted(obs)
        seen = tf.reshape(self.eye(obs["eye"]), [-1, 3 * 3 * 2])
        rest = self.rest(tf.concat([obs["place"], obs["kind"], obs["kinds"]], axis=1))
        return tf.concat([seen, rest], axis=1), None, state


class Wrong(keras.layers.Layer):
    """Gives what it is told to."""

    def __init__(self, space: Box, case: str) -> None:
        super().__init__()
        self.case = case
        if case == "construction":
            raise ValueError("no such thing\nas a second line")

    def initial_state(self, n: int) -> Any:
        return {"state list": [tf.zeros((n, 2))], "state size": (tf.zeros((n + 1, 2)),)}.get(self.case, ())

    def call(self, obs: Any, state: Any) -> Any:
        good = obs, None, state
        if self.case == "failing":
            raise RuntimeError("it does not want to\nand says so at length")
        wrong: dict[str, Any] = {
            "no tuple": obs,
            "two": (obs, None),
            "flat": (obs[:, 0], None, state),
            "rows": (obs[:1], None, state),
            "values": (obs, obs, state),
            "double": (tf.cast(obs, tf.float64), None, state),
            "double values": (obs, tf.cast(obs[:, 0], tf.float64), state),
            "state": (obs, None, (tf.zeros((2, 1)),)),
        }
        return wrong.get(self.case, good)


def functional(space: Box) -> Any:
    """A model of Keras's functional kind cannot take a state: a layer around it does."""
    inputs = keras.Input(space.shape)
    inner = keras.Model(inputs, keras.layers.Dense(3, activation="relu")(keras.layers.Dense(5)(inputs)))

    class Around(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__(name="around")
            self.inner = inner

        def call(self, obs: Any, state: Any) -> Any:
            return self.inner(obs), None, state

    return Around()


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    """The classes above as a module on the Python path."""
    own = ModuleType("own_models")
    for thing in (Plain, Critic, Sums, Cell, Statistics, Tied, Parts, Wrong):
        setattr(own, thing.__name__, thing)
    vars(own).update(number=3, not_a_layer=lambda space: "text", functional=functional)
    monkeypatch.setitem(sys.modules, "own_models", own)


def custom(build: Build, graph: Any, name: str, space: Any = VECTOR, action_space: Any = None, **more: Any) -> Any:
    settings = more.pop("settings", {})
    model = {"custom": f"own_models:{name}", "settings": settings, **more.pop("model", {})}
    return build(graph, action_space or Discrete(3), observation_space=space, model=model, **more)


@each_graph
@pytest.mark.parametrize("name", ["Critic", "Cell"])
def test_every_graph_acts_and_learns_with_it(build: Build, sample: Any, graph: Any, name: str) -> None:
    own = custom(build, graph, name)
    in_pieces = name == "Cell" or graph.in_time_order
    assert own.actor() is None and own.minibatch_unit is (PIECE if in_pieces else ROW)
    batch = sample(own)
    np.testing.assert_allclose(own.log_probs(batch), batch["action_logp"], atol=1e-6)
    assert ("vf_preds" in batch) == graph.has_value
    before = own.get_weights()
    assert ("value.out.weight" in before) == (graph.has_value and name != "Critic")
    for _ in range(2):
        output = own.learn(batch)
        assert not output.skipped and output.rows == len(batch)
    moved = {weight for weight, array in own.get_weights().items() if (array != before[weight]).any()}
    # What is unused without values has no gradient.
    assert moved == own.trainable - {w for w in before if "critic" in w and not graph.has_value}


@pytest.mark.parametrize("name", ["Plain", "functional"])
def test_names_do_not_depend_on_what_was_built_before(build: Build, name: str) -> None:
    one, other = (custom(build, PPO, name).get_weights() for _ in range(2))
    assert list(one) == list(other)
    assert all((one[weight] == other[weight]).all() for weight in one)


def test_names_and_layouts_of_the_weights(build: Build) -> None:
    own = custom(build, PPO, "Plain", settings={"width": 7}, action_space=Box(-1.0, 1.0, (2,), np.float32))
    assert {name: array.shape for name, array in own.get_weights().items()} == {
        "model.plain.dense.kernel": (4, 7),
        "model.plain.dense.bias": (7,),
        "model.plain.shift": (7,),
        "policy.out.weight": (7, 2),
        "policy.out.bias": (2,),
        "policy.log_std": (2,),
        "value.out.weight": (7, 1),
        "value.out.bias": (1,),
    }
    assert own.acting - own.trainable == {"model.plain.shift"}


def test_it_computes_what_the_layer_does(build: Build) -> None:
    own = custom(build, PPO, "Critic")
    weights = own.get_weights()
    obs = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    expected = obs @ weights["model.plain.critic.kernel"] + weights["model.plain.critic.bias"]
    np.testing.assert_allclose(own.values(obs), expected[:, 0], atol=1e-6)
    features = np.tanh(obs @ weights["model.plain.dense.kernel"] + weights["model.plain.dense.bias"]) + 0.5
    logits = features @ weights["policy.out.weight"] + weights["policy.out.bias"]
    greedy = own.act(obs, explore=False, rng=np.random.default_rng(0))
    assert greedy.actions.tolist() == logits.argmax(1).tolist()
    # What is not trained is read from the weights too.
    own.set_weights({"model.plain.shift": np.full(6, 2.0, np.float32)})
    logits = (features + 1.5) @ weights["policy.out.weight"] + weights["policy.out.bias"]
    logp = (logits - np.log(np.exp(logits).sum(1, keepdims=True))).max(1)
    np.testing.assert_allclose(own.act(obs, explore=False, rng=None).extras["action_logp"], logp, atol=1e-6)


def test_the_state_is_the_layers_own(build: Build) -> None:
    own = custom(build, PPO, "Sums", space=Box(-np.inf, np.inf, (1,), np.float32), action_space=Discrete(2))
    assert [part.tolist() for part in own.initial_state(2)] == [[[5.0], [5.0]]]
    evaluator = PolicyEvaluator(env=partial(Count, length=5), graph=own, collect=Fragment(3), rng=0)
    first, second = evaluator.sample(), evaluator.sample()
    # 5 + 10, + 11, + 12; then + 13, + 14, and the next episode.
    assert first["vf_preds"].tolist() == [15.0, 26.0, 38.0] and first.state_in()[0].tolist() == [[5.0]]
    assert second["vf_preds"].tolist() == [51.0, 65.0, 15.0] and second.state_in()[0].tolist() == [[38.0], [5.0]]
    assert first.cuts["last_value"].tolist() == [51.0] and second.cuts["last_value"].tolist() == [80.0, 26.0]


@pytest.mark.parametrize("name", ["Sums", "Cell"])
def test_pieces_together_are_what_they_are_one_by_one(build: Build, sample: Any, name: str) -> None:
    own = custom(build, A3C, name)
    own.set_weights({"policy.out.weight": 30 * own.get_weights()["policy.out.weight"]})
    batch = sample(own, 20, 3)
    assert len(set(batch.cuts["length"].tolist())) > 3
    alone = [own.log_probs(batch.take_pieces([piece])) for piece in range(batch.pieces)]
    np.testing.assert_allclose(own.log_probs(batch), np.concatenate(alone), atol=1e-5)
    np.testing.assert_allclose(own.log_probs(batch), batch["action_logp"], atol=1e-5)
    bare = SampleBatch({key: column for key, column in batch.rows.items() if key != "vf_preds"}, batch.cuts)
    np.testing.assert_allclose(own.postprocess(bare)["vf_preds"], batch["vf_preds"], atol=1e-5)
    whole = own.gradients(batch)
    parts = [own.gradients(batch, np.array([piece])) for piece in range(batch.pieces)]
    for weight, gradient in whole.gradients.items():
        mean = sum(part.count * part.gradients[weight] for part in parts) / whole.count
        np.testing.assert_allclose(mean, gradient, rtol=1e-4, atol=1e-5, err_msg=weight)


def test_B119_variables_that_are_not_trained_stay_and_nothing_is_dropped(build: Build, sample: Any) -> None:
    own = custom(build, PPO, "Statistics")
    before = own.get_weights()
    kept = {f"model.own.{name}" for name in ("seen", "batch_normalization.moving_mean")}
    kept.add("model.own.batch_normalization.moving_variance")
    assert kept == own.acting - own.trainable
    batch = sample(own)
    assert (own.values(batch.obs) == own.values(batch.obs)).all()
    for _ in range(3):
        assert not own.learn(batch).skipped
    after = own.get_weights()
    assert all((after[name] == before[name]).all() for name in kept)
    assert (after["model.own.batch_normalization.gamma"] != before["model.own.batch_normalization.gamma"]).any()
    assert own.gradients(batch).gradients.keys() == own.trainable


def test_layers_that_are_not_to_be_learnt_stay(build: Build, sample: Any) -> None:
    own = custom(build, PPO, "Tied")
    before = own.get_weights()
    batch = sample(own)
    gradients = own.gradients(batch).gradients
    own.apply_gradients(gradients)
    own.learn(batch)
    moved = {name for name, array in own.get_weights().items() if (array != before[name]).any()}
    frozen = {"model.own.dense_1.kernel", "model.own.dense_1.bias"}
    assert moved == own.trainable == set(gradients) == set(before) - frozen
    with pytest.raises(UserError, match=r"unknown weights model\.own\.dense_1\.bias"):
        own.apply_gradients({**gradients, "model.own.dense_1.bias": before["model.own.dense_1.bias"]})


def test_B088_states_go_on_exactly(build: Build, sample: Any) -> None:
    for name in ("Statistics", "Cell"):
        one, other = custom(build, PPO, name), custom(build, PPO, name, seed=3)
        batch = sample(one)
        one.learn(batch)
        other.set_state(one.get_state())
        for own in (one, other):
            own.learn(batch)
        first, second = one.get_weights(), other.get_weights()
        assert all(first[weight].tobytes() == second[weight].tobytes() for weight in first), name


def test_parts_of_an_observation_come_by_name(build: Build, sample: Any) -> None:
    space = Dict(
        {
            "eye": Box(0, 255, (5, 5, 3), np.uint8),
            "place": VECTOR,
            "kind": Discrete(2, start=1),
            "kinds": MultiDiscrete([2, 3]),
            "action_mask": MultiBinary(3),
        }
    )
    own = custom(build, PPO, "Parts", space)
    batch = sample(own)
    assert not own.learn(batch).skipped
    taken = batch["obs.action_mask"][np.arange(len(batch)), batch.actions]
    assert taken.all()


def test_scale_holds_for_it(build: Build) -> None:
    space = Box(0.0, 10.0, (4,), np.float32)
    plain, scaled = custom(build, PPO, "Sums", space), custom(build, PPO, "Sums", space, model={"scale": {"obs": True}})
    obs = np.full((1, 4), 5.0, np.float32)
    assert plain.values(obs, plain.initial_state(1)).tolist() == [40.0]
    assert scaled.values(obs, scaled.initial_state(1)).tolist() == [22.0]


def test_the_seed_decides_its_weights_and_nothing_else_is_drawn_from(build: Build) -> None:
    random.seed(1)
    expected = random.random()
    random.seed(1)
    one = custom(build, PPO, "Cell").get_weights()
    assert random.random() == expected, "Python's own generator was moved"
    same, other = custom(build, PPO, "Cell").get_weights(), custom(build, PPO, "Cell", seed=1).get_weights()
    assert all(one[name].tobytes() == same[name].tobytes() for name in one)
    assert one["model.own.gru_cell.kernel"].tobytes() != other["model.own.gru_cell.kernel"].tobytes()


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("Missing", {}, r"own_models has no 'Missing'"),
        ("number", {}, r"own_models:number is no function or class"),
        ("not_a_layer", {}, r"own_models:not_a_layer gave str, expected a keras.Layer or keras.Model"),
        ("Plain", {"widht": 3}, r"does not take model\.settings: .*widht"),
        ("Wrong", {"case": "construction"}, r"own_models:Wrong fails: .*no such thing"),
        ("Wrong", {"case": "failing"}, r"fails on 2 observations: .*it does not want to"),
        ("Wrong", {"case": "no tuple"}, r"has to give \(head inputs .*, not EagerTensor"),
        ("Wrong", {"case": "two"}, r"has to give \(head inputs .*, not tuple"),
        ("Wrong", {"case": "flat"}, r"the head inputs of own_models:Wrong are \[2\], expected \[n, k\]"),
        ("Wrong", {"case": "rows"}, r"the head inputs of own_models:Wrong are \[1, 4\], expected \[n, k\]"),
        ("Wrong", {"case": "values"}, r"the values of own_models:Wrong are \[2, 4\], expected \[n\] or None"),
        ("Wrong", {"case": "double"}, r"the head inputs of own_models:Wrong are float64, expected float32"),
        ("Wrong", {"case": "double values"}, r"the values of own_models:Wrong are float64, expected"),
        ("Wrong", {"case": "state"}, r"gives a state unlike the one that it was given"),
        ("Wrong", {"case": "state list"}, r"initial_state\(2\) of own_models:Wrong gives no tuple"),
        ("Wrong", {"case": "state size"}, r"initial_state\(2\) of own_models:Wrong gives no tuple"),
    ],
    ids=str,
)
def test_what_is_no_model_is_refused_in_one_line(build: Build, name: str, settings: Any, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        custom(build, PPO, name, settings=settings)
    assert isinstance(caught.value, ConfigError | PluginError) and "\n" not in str(caught.value)


def test_it_has_a_precision_of_its_own(build: Build) -> None:
    with pytest.raises(ConfigError, match=r"model\.precision: a custom Keras model has its own"):
        custom(build, PPO, "Plain", model={"precision": "bfloat16"})


def config_of(name: str) -> dict[str, Any]:
    return {
        "algorithm": "ppo",
        "framework": "tf",
        "env": "CartPole-v1",
        "evaluators": {"envs": 2, "fragment": 9},
        "model": {"custom": f"own_models:{name}"},
        "optimizer": {"epochs": 2, "minibatch_size": 8},
        "seed": 5,
        "stop": {"iteration": 9},
    }


@pytest.mark.parametrize("name", ["Plain", "Cell"])
def test_B088_a_run_goes_on_exactly_where_its_code_is_trusted(name: str, tmp_path: Path) -> None:
    pytest.importorskip("rlcore_sync")
    with Trainer(config_of(name)) as trainer:
        for _ in range(2):
            trainer.step()
        trainer.save(tmp_path / "two")
        for _ in range(2):
            trainer.step()
        expected = trainer.weights_sha256()
    with pytest.raises(CheckpointError, match=rf"names code to import: .*custom=own_models:{name}.*--trust"):
        Trainer.restore(tmp_path / "two")
    with Trainer.restore(tmp_path / "two", trust=True) as restored:
        for _ in range(2):
            restored.step()
        assert restored.weights_sha256() == expected
    policy = rlcore.load_policy(tmp_path / "two", trust=True)
    actions = [policy.act(np.array([0.1, 0.2, -0.1, step], np.float32)) for step in range(4)]
    assert all(action in (0, 1) for action in actions)
