"""Models of the user's own: modules named by import path."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from torch import Tensor, nn

import rlcore
from rlcore.batch import SampleBatch
from rlcore.errors import CheckpointError, ConfigError, PluginError, UserError
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import PIECE, ROW
from rlcore.sampling.collect import Fragment
from rlcore.testing.environments import Count, Drawn
from rlcore.trainer import Trainer
from rlcore_torch import A3C, APPO, IMPALA, PPO, PolicyGradient

Build = Callable[..., Any]
VECTOR = Box(-1.0, 1.0, (4,), np.float32)
GRAPHS = [PolicyGradient, A3C, PPO, IMPALA, APPO]
each_graph = pytest.mark.parametrize("graph", GRAPHS)


class Plain(nn.Module):
    """One layer; values are left to rlcore. ``shift`` is a buffer, ``count`` one of whole numbers."""

    def __init__(self, space: Box, width: int = 6) -> None:
        super().__init__()
        self.layer = nn.Linear(space.shape[0], width)
        self.register_buffer("shift", torch.full((width,), 0.5))
        self.register_buffer("count", torch.tensor(3))

    def forward(self, obs: Tensor, state: tuple[Tensor, ...]) -> Any:
        return torch.tanh(self.layer(obs)) + self.shift, None, state


class Critic(Plain):
    """With values of its own."""

    def __init__(self, space: Box, width: int = 6) -> None:
        super().__init__(space, width)
        self.critic = nn.Linear(space.shape[0], 1)

    def forward(self, obs: Tensor, state: tuple[Tensor, ...]) -> Any:
        return super().forward(obs, state)[0], self.critic(obs)[:, 0], state


class Sums(nn.Module):
    """Its state is the sum of the observations so far, and 5 to begin with: what it should be can be said."""

    def __init__(self, space: Box) -> None:
        super().__init__()
        self.size = space.shape[0]
        self.weight = nn.Parameter(torch.ones(self.size))

    def initial_state(self, n: int) -> tuple[Tensor, ...]:
        return (torch.full((n, self.size), 5.0),)

    def forward(self, obs: Tensor, state: tuple[Tensor, ...]) -> Any:
        after = state[0] + obs
        return after * self.weight, after.sum(1), (after,)


class Cell(nn.Module):
    """A GRU."""

    def __init__(self, space: Box) -> None:
        super().__init__()
        self.cell = nn.GRUCell(space.shape[0], 5)

    def initial_state(self, n: int) -> tuple[Tensor, ...]:
        return (torch.zeros(n, 5),)

    def forward(self, obs: Tensor, state: tuple[Tensor, ...]) -> Any:
        after = self.cell(obs, state[0])
        return after, None, (after,)


class Statistics(nn.Module):
    """What would move in training mode, and buffers that it writes into."""

    def __init__(self, space: Box) -> None:
        super().__init__()
        self.norm, self.drop, self.layer = nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 5)
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))

    def forward(self, obs: Tensor, state: tuple[Tensor, ...]) -> Any:
        self.seen += len(obs)
        self.calls += 1
        return self.layer(self.drop(self.norm(obs))) + self.seen + self.calls, None, state


class Tied(nn.Module):
    """Two layers share a matrix, a third is not to be learnt, and one number is no vector."""

    def __init__(self, space: Box) -> None:
        super().__init__()
        self.one, self.two, self.frozen = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.two.weight = self.one.weight
        self.frozen.requires_grad_(False)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, obs: Tensor, state: tuple[Tensor, ...]) -> Any:
        return self.frozen(torch.tanh(self.two(self.one(obs)))) * self.scale, None, state


class Parts(nn.Module):
    """Reads a nested observation by its leaves."""

    def __init__(self, space: Dict) -> None:
        super().__init__()
        self.eye, self.rest = nn.Conv2d(3, 2, 3), nn.Linear(4 + 2 + 5, 3)

    def forward(self, obs: dict[str, Tensor], state: tuple[Tensor, ...]) -> Any:
        assert set(obs) == {"eye", "place", "kind", "kinds"}, sorted(obs)
        assert obs["eye"].max() <= 1.0
        seen = self.eye(obs["eye"].permute(0, 3, 1, 2)).flatten(1)
        rest = self.rest(torch.cat([obs["place"], obs["kind"], obs["kinds"]], 1))
        return torch.cat([seen, rest], 1), None, state


class Wrong(nn.Module):
    """Gives what it is told to."""

    def __init__(self, space: Box, case: str) -> None:
        super().__init__()
        self.case = case
        if case == "construction":
            raise ValueError("no such thing\nas a second line")

    def initial_state(self, n: int) -> Any:
        return {"state list": [torch.zeros(n, 2)], "state size": (torch.zeros(n + 1, 2),)}.get(self.case, ())

    def forward(self, obs: Tensor, state: Any) -> Any:
        good = obs, None, state
        if self.case == "failing":
            raise RuntimeError("it does not want to\nand says so at length")
        wrong: dict[str, Any] = {
            "no tuple": obs,
            "two": (obs, None),
            "flat": (obs[:, 0], None, state),
            "rows": (obs[:1], None, state),
            "array": (obs.numpy(), None, state),
            "values": (obs, obs, state),
            "double": (obs.double(), None, state),
            "double values": (obs, obs[:, 0].double(), state),
            "state": (obs, None, (torch.zeros(2, 1),)),
        }
        return wrong.get(self.case, good)


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    """The classes above as a module on the Python path."""
    own = ModuleType("own_models")
    for thing in (Plain, Critic, Sums, Cell, Statistics, Tied, Parts, Wrong):
        setattr(own, thing.__name__, thing)
    vars(own).update(number=3, not_a_module=lambda space: "text", nested=lambda space, **more: Plain(space, **more))
    monkeypatch.setitem(sys.modules, "own_models", own)


def custom(build: Build, graph: Any, name: str, space: Any = VECTOR, action_space: Any = None, **more: Any) -> Any:
    settings = more.pop("settings", {})
    model = {"custom": f"own_models:{name}", "settings": settings, **more.pop("model", {})}
    return build(graph, action_space or Discrete(3), observation_space=space, model=model, **more)


def sampled(own: Any, steps: int = 12, num_envs: int = 3) -> SampleBatch:
    env = partial(Drawn, own.observation_space, own.action_space)
    batch = PolicyEvaluator(env=env, graph=own, num_envs=num_envs, collect=Fragment(steps), rng=2).sample()
    assert isinstance(batch, SampleBatch)
    return batch


@each_graph
@pytest.mark.parametrize("name", ["Plain", "Critic", "Sums", "Cell", "nested"])
def test_every_graph_acts_and_learns_with_it(build: Build, graph: Any, name: str) -> None:
    own = custom(build, graph, name)
    in_pieces = name in ("Sums", "Cell") or graph.in_time_order
    assert own.actor() is None and own.minibatch_unit is (PIECE if in_pieces else ROW)
    batch = sampled(own)
    np.testing.assert_allclose(own.log_probs(batch), batch["action_logp"], atol=1e-6)
    assert ("vf_preds" in batch) == graph.has_value
    before = own.get_weights()
    assert ("value.out.weight" in before) == (graph.has_value and name not in ("Critic", "Sums"))
    for _ in range(2):
        output = own.learn(batch)
        assert not output.skipped and output.rows == len(batch)
    moved = {weight for weight, array in own.get_weights().items() if (array != before[weight]).any()}
    # What is unused without values has no gradient.
    assert moved == own.trainable - {w for w in before if w.startswith("model.critic") and not graph.has_value}


def test_names_and_layouts_of_the_weights(build: Build) -> None:
    own = custom(build, PPO, "Plain", settings={"width": 7}, action_space=Box(-1.0, 1.0, (2,), np.float32))
    assert {name: array.shape for name, array in own.get_weights().items()} == {
        "model.layer.weight": (7, 4),
        "model.layer.bias": (7,),
        "model.shift": (7,),
        "policy.out.weight": (7, 2),
        "policy.out.bias": (2,),
        "policy.log_std": (2,),
        "value.out.weight": (7, 1),
        "value.out.bias": (1,),
    }
    assert own.acting - own.trainable == {"model.shift"}


def test_it_computes_what_the_module_does(build: Build) -> None:
    own = custom(build, PPO, "Critic")
    weights = own.get_weights()
    obs = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    expected = obs @ weights["model.critic.weight"].T + weights["model.critic.bias"]
    np.testing.assert_allclose(own.values(obs), expected[:, 0], atol=1e-6)
    features = np.tanh(obs @ weights["model.layer.weight"].T + weights["model.layer.bias"]) + 0.5
    logits = features @ weights["policy.out.weight"] + weights["policy.out.bias"]
    greedy = own.act(obs, explore=False, rng=np.random.default_rng(0))
    assert greedy.actions.tolist() == logits.argmax(1).tolist()
    # Buffers are read from the weights.
    own.set_weights({"model.shift": np.full(6, 2.0, np.float32), "policy.out.weight": np.eye(6, 3, dtype=np.float32)})
    logits = np.tanh(obs @ weights["model.layer.weight"].T + weights["model.layer.bias"])[:, :3] + 2.0
    logp = (logits - np.log(np.exp(logits).sum(1, keepdims=True))).max(1)
    np.testing.assert_allclose(own.act(obs, explore=False, rng=None).extras["action_logp"], logp, atol=1e-6)


def test_the_state_is_the_modules_own(build: Build) -> None:
    own = custom(build, PPO, "Sums", space=Box(-np.inf, np.inf, (1,), np.float32), action_space=Discrete(2))
    assert [part.tolist() for part in own.initial_state(2)] == [[[5.0], [5.0]]]
    evaluator = PolicyEvaluator(env=partial(Count, length=5), graph=own, collect=Fragment(3), rng=0)
    first, second = evaluator.sample(), evaluator.sample()
    # 5 + 10, + 11, + 12; then + 13, + 14, and the next episode.
    assert first["vf_preds"].tolist() == [15.0, 26.0, 38.0] and first.state_in()[0].tolist() == [[5.0]]
    assert second["vf_preds"].tolist() == [51.0, 65.0, 15.0] and second.state_in()[0].tolist() == [[38.0], [5.0]]
    assert first.cuts["last_value"].tolist() == [51.0] and second.cuts["last_value"].tolist() == [80.0, 26.0]


@pytest.mark.parametrize("name", ["Sums", "Cell"])
def test_pieces_together_are_what_they_are_one_by_one(build: Build, name: str) -> None:
    own = custom(build, A3C, name)
    own.set_weights({"policy.out.weight": 30 * own.get_weights()["policy.out.weight"]})
    batch = sampled(own, 20)
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


@pytest.mark.parametrize("name", ["Plain", "Cell"])
def test_two_devices_learn_like_one(build: Build, name: str) -> None:
    one, two = (custom(build, PPO, name, devices=devices) for devices in (("cpu",), ("cpu", "cpu")))
    batch = sampled(one)
    for _ in range(3):
        one.learn(batch)
        two.learn(batch)
    first, second = one.get_weights(), two.get_weights()
    assert all(np.allclose(first[weight], second[weight], atol=2e-6) for weight in first)


def test_B119_buffers_stay_and_nothing_is_dropped(build: Build) -> None:
    own = custom(build, PPO, "Statistics")
    before = own.get_weights()
    buffers = {"model.norm.running_mean", "model.norm.running_var", "model.seen"}
    assert buffers == own.acting - own.trainable
    batch = sampled(own)
    assert (own.values(batch.obs) == own.values(batch.obs)).all()
    for _ in range(3):
        assert not own.learn(batch).skipped
    after = own.get_weights()
    assert all((after[name] == before[name]).all() for name in buffers)
    assert (after["model.norm.weight"] != before["model.norm.weight"]).any()
    assert own.gradients(batch).gradients.keys() == own.trainable


def test_parameters_that_require_no_gradient_stay_and_shared_ones_are_one(build: Build) -> None:
    own = custom(build, PPO, "Tied")
    before = own.get_weights()
    assert {name for name in before if name.startswith("model.")} == {
        "model.one.weight",
        "model.one.bias",
        "model.two.bias",
        "model.frozen.weight",
        "model.frozen.bias",
        "model.scale",
    }
    batch = sampled(own)
    gradients = own.gradients(batch).gradients
    own.apply_gradients(gradients)
    own.learn(batch)
    moved = {name for name, array in own.get_weights().items() if (array != before[name]).any()}
    assert moved == own.trainable == set(gradients) == set(before) - {"model.frozen.weight", "model.frozen.bias"}
    with pytest.raises(UserError, match=r"unknown weights model\.frozen\.bias"):
        own.apply_gradients({**gradients, "model.frozen.bias": before["model.frozen.bias"]})


def test_B088_states_go_on_exactly(build: Build) -> None:
    for name in ("Tied", "Statistics", "Cell"):
        one, other = custom(build, PPO, name), custom(build, PPO, name, seed=3)
        batch = sampled(one)
        one.learn(batch)
        other.set_state(one.get_state())
        for own in (one, other):
            own.learn(batch)
        first, second = one.get_weights(), other.get_weights()
        assert all(first[weight].tobytes() == second[weight].tobytes() for weight in first), name


def test_parts_of_an_observation_come_by_name(build: Build) -> None:
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
    batch = sampled(own)
    assert not own.learn(batch).skipped
    taken = batch["obs.action_mask"][np.arange(len(batch)), batch.actions]
    assert taken.all()


def test_scale_holds_for_it(build: Build) -> None:
    space = Box(0.0, 10.0, (4,), np.float32)
    plain, scaled = custom(build, PPO, "Sums", space), custom(build, PPO, "Sums", space, model={"scale": {"obs": True}})
    obs = np.full((1, 4), 5.0, np.float32)
    assert plain.values(obs, plain.initial_state(1)).tolist() == [40.0]
    assert scaled.values(obs, scaled.initial_state(1)).tolist() == [22.0]
    with pytest.raises(ConfigError, match=r"model\.scale: the observation has no part 'eye'"):
        custom(build, PPO, "Plain", model={"scale": {"eye": True}})


def test_the_seed_decides_its_weights_and_nothing_else_is_drawn_from(build: Build) -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    one = custom(build, PPO, "Cell").get_weights()
    assert torch.equal(torch.rand(3), expected), "torch's own generator was moved"
    same, other = custom(build, PPO, "Cell").get_weights(), custom(build, PPO, "Cell", seed=1).get_weights()
    assert all(one[name].tobytes() == same[name].tobytes() for name in one)
    assert one["model.cell.weight_ih"].tobytes() != other["model.cell.weight_ih"].tobytes()


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("Missing", {}, r"own_models has no 'Missing'"),
        ("number", {}, r"own_models:number is no function or class"),
        ("not_a_module", {}, r"own_models:not_a_module gave str, expected a torch.nn.Module"),
        ("Plain", {"widht": 3}, r"does not take model\.settings: .*widht"),
        ("Wrong", {"case": "construction"}, r"own_models:Wrong fails: .*no such thing"),
        ("Wrong", {"case": "failing"}, r"fails on 2 observations: .*it does not want to"),
        ("Wrong", {"case": "no tuple"}, r"has to give \(head inputs .*, not Tensor"),
        ("Wrong", {"case": "two"}, r"has to give \(head inputs .*, not tuple"),
        ("Wrong", {"case": "flat"}, r"the head inputs of own_models:Wrong are \[2\], expected \[n, k\]"),
        ("Wrong", {"case": "rows"}, r"the head inputs of own_models:Wrong are \[1, 4\], expected \[n, k\]"),
        ("Wrong", {"case": "array"}, r"the head inputs of own_models:Wrong are ndarray, expected \[n, k\]"),
        ("Wrong", {"case": "values"}, r"the values of own_models:Wrong are \[2, 4\], expected \[n\] or None"),
        ("Wrong", {"case": "double"}, r"the head inputs of own_models:Wrong are torch.float64, expected torch.float32"),
        ("Wrong", {"case": "double values"}, r"the values of own_models:Wrong are torch.float64, expected"),
        ("Wrong", {"case": "state"}, r"gives a state unlike the one that it was given"),
        ("Wrong", {"case": "state list"}, r"initial_state\(1\) of own_models:Wrong gives no tuple"),
        ("Wrong", {"case": "state size"}, r"initial_state\(1\) of own_models:Wrong gives no tuple"),
    ],
    ids=str,
)
def test_what_is_no_model_is_refused_in_one_line(build: Build, name: str, settings: Any, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        custom(build, PPO, name, settings=settings)
    assert isinstance(caught.value, ConfigError | PluginError) and "\n" not in str(caught.value)


@pytest.mark.parametrize("path", ["no_such_module:build", "own_models:Plain.missing", "own-models:Plain"])
def test_paths_that_lead_nowhere(build: Build, path: str) -> None:
    with pytest.raises(PluginError) as caught:
        build(PPO, model={"custom": path})
    assert "\n" not in str(caught.value)


def config_of(name: str, **more: Any) -> dict[str, Any]:
    return {
        "algorithm": "ppo",
        "framework": "torch",
        "env": "CartPole-v1",
        "evaluators": {"envs": 2, "fragment": 9},
        "model": {"custom": f"own_models:{name}", **more},
        "seed": 5,
        "stop": {"iteration": 9},
    }


@pytest.mark.parametrize("name", ["Plain", "Cell", "Tied"])
def test_B088_a_run_goes_on_exactly_where_its_code_is_trusted(name: str, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("name", ["Plain", "Cell"])
def test_a_trained_policy_needs_trust_as_well(name: str, tmp_path: Path) -> None:
    with Trainer(config_of(name)) as trainer:
        trainer.step()
        trainer.save(tmp_path / "saved")
    with pytest.raises(CheckpointError, match="names code to import"):
        rlcore.load_policy(tmp_path / "saved")
    policy = rlcore.load_policy(tmp_path / "saved", trust=True)
    actions = [policy.act(np.array([0.1, 0.2, -0.1, step], np.float32)) for step in range(4)]
    assert all(action in (0, 1) for action in actions)


def test_in_a_config_it_stands_alone() -> None:
    with pytest.raises(ConfigError, match="lstm: not read beside a custom model") as caught:
        Trainer(config_of("Plain", lstm=4))
    assert "\n" not in str(caught.value)
