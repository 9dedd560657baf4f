"""A trained policy acts on raw observations, without its environment and where possible without its framework."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Text, Tuple
from support.runs import linear, two_agents

import rlcore
from rlcore.errors import CheckpointError, ConfigError, PluginError, SpaceError, UserError
from rlcore.evaluate_saved import evaluate_saved
from rlcore.spaces_json import space_from_json, space_to_json
from rlcore.trainer import Trainer


def saved(config: dict[str, Any], folder: Path, iterations: int = 3) -> Path:
    with Trainer(config) as trainer:
        for _ in range(iterations):
            trainer.step()
        return trainer.save(folder / "saved")


def test_the_policy_acts_as_in_evaluation(tmp_path: Path) -> None:
    config = linear({"filter": "mean_std", "stop.iteration": 10})
    with Trainer(config, out=tmp_path / "run") as trainer:
        trainer.train()
        actor, filters = trainer.evaluators.local.policies["default"], trainer.evaluators.local.filters
        obs = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
        seen = filters["default"][""].normalise(obs)
        expected = actor.act(seen, explore=False, rng=np.random.default_rng(0)).actions
    policy = rlcore.load_policy(tmp_path / "run")
    np.testing.assert_array_equal(policy.act(obs), expected)
    assert len(set(expected.tolist())) == 2 and policy.weights_version == 10


def test_B110_one_observation_or_several_by_their_shape(tmp_path: Path) -> None:
    policy = rlcore.load_policy(saved(linear(), tmp_path))
    one = policy.act(np.zeros(4, np.float32))
    assert type(one) is int
    policy.reset()
    several = policy.act(np.zeros((3, 4), np.float32))
    assert several.tolist() == [one, one, one]
    policy.reset()
    assert policy.act(np.zeros((1, 4))).tolist() == [one]
    policy.reset()
    assert policy.act([0.0, 0.0, 0.0, 0.0]) == one
    policy.reset()
    for wrong in (np.zeros(3), np.zeros((4, 3)), np.zeros((2, 2, 4)), np.zeros(())):
        with pytest.raises(SpaceError, match="expected"):
            policy.act(wrong)


class Remembering:
    """Acts as another policy, and counts the steps of each episode."""

    def __init__(self, policy: Any) -> None:
        self.policy = policy

    def initial_state(self, n: int) -> Any:
        return (np.zeros((n, 1), np.float32),)

    def act(self, obs: Any, state: Any, **asked: Any) -> Any:
        return self.policy.act(obs, (), **asked)._replace(state=(state[0] + 1,))


def test_a_policy_without_memory_takes_any_number_of_observations(tmp_path: Path) -> None:
    policy = rlcore.load_policy(saved(linear(), tmp_path))
    one = policy.act(np.zeros(4))
    assert policy.act(np.zeros((3, 4))).tolist() == [one] * 3
    assert policy.act(np.zeros(4)) == one


@pytest.mark.parametrize(
    ("env", "obs", "message"),
    [
        ("CartPole-v1", [0, np.nan, 0, 0], "the observation is not finite: [ 0. nan  0.  0.]"),
        ("CartPole-v1", [[0, 0, 0, 0], [0, 0, -np.inf, 0]], "the observation is not finite: [  0.   0. -inf   0.]"),
        ("CartPole-v1", ["a", "b", "c", "d"], "the observation holds <U1 values, not numbers"),
        ("CliffWalking-v1", 48, "the observation is outside its space: 48"),
        ("CliffWalking-v1", -1, "the observation is outside its space: -1"),
        ("CliffWalking-v1", 1.5, "the observation is outside its space: 1.5"),
    ],
)
def test_observations_that_are_none(env: str, obs: Any, message: str, tmp_path: Path) -> None:
    policy = rlcore.load_policy(saved(linear({"env": env}), tmp_path, 1))
    with pytest.raises(SpaceError) as caught:
        policy.act(obs)
    assert str(caught.value) == message


def test_another_number_of_observations_needs_a_reset_where_there_is_a_memory(tmp_path: Path) -> None:
    policy = rlcore.load_policy(saved(linear(), tmp_path))
    policy._policy = Remembering(policy._policy)  # type: ignore[assignment]
    policy.act(np.zeros((3, 4)))
    with pytest.raises(UserError, match=r"acting for 3 observations, not 2: call reset\(\) first"):
        policy.act(np.zeros((2, 4)))
    policy.reset()
    assert len(policy.act(np.zeros((2, 4)))) == 2


def test_actions_are_the_environments(tmp_path: Path) -> None:
    policy = rlcore.load_policy(saved(linear({"env": "Pendulum-v1"}), tmp_path))
    assert policy.action_space == gymnasium.make("Pendulum-v1").action_space
    action = policy.act(np.zeros(3, np.float32), explore=True)
    assert action.shape == (1,) and action.dtype == np.float32
    policy.reset()
    drawn = policy.act(np.zeros((200, 3), np.float32), explore=True)
    assert drawn.shape == (200, 1) and (np.abs(drawn) <= 2.0).all() and len(np.unique(drawn)) > 100
    policy.reset()
    assert len(np.unique(policy.act(np.zeros((200, 3), np.float32)))) == 1


def test_drawn_actions_follow_from_the_seed(tmp_path: Path) -> None:
    folder = saved(linear({"env": "Pendulum-v1"}), tmp_path)

    def draw(seed: int) -> Any:
        return rlcore.load_policy(folder, seed=seed).act(np.zeros((5, 3)), explore=True).tolist()

    assert draw(1) == draw(1) != draw(2)


class Nested(gymnasium.Env[Any, Any]):
    """Observes a dict within a dict, and counts from 3 in its actions."""

    observation_space = Dict(b=Dict(inner=Box(-1, 1, (2,), np.float32)), a=Box(-1, 1, (), np.float32))
    action_space = Discrete(2, start=3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return self.observe(), {}

    def observe(self) -> Any:
        return {"a": np.float32(0.5), "b": {"inner": np.full(2, self.t / 10, np.float32)}}

    def step(self, action: Any) -> Any:
        assert action in (3, 4)
        self.t += 1
        return self.observe(), 1.0, self.t == 5, False, {}


def test_B110_nested_observations_in_the_structure_of_the_space(tmp_path: Path) -> None:
    folder = saved(linear({"env": Nested}), tmp_path)
    policy = rlcore.load_policy(folder)
    one = {"b": {"inner": np.zeros(2, np.float32)}, "a": np.float32(0)}
    action = policy.act(one)
    assert type(action) is int and action in (3, 4)
    policy.reset()
    two = policy.act({"a": np.zeros(2, np.float32), "b": {"inner": np.zeros((2, 2), np.float32)}})
    assert two.tolist() == [action, action]
    policy.reset()
    with pytest.raises(SpaceError, match="disagree"):
        policy.act({"a": np.zeros(3, np.float32), "b": {"inner": np.zeros((2, 2), np.float32)}})
    with pytest.raises(SpaceError, match=r"keys \['a'\], expected \['a', 'b'\]"):
        policy.act({"a": np.float32(0)})
    with pytest.raises(SpaceError, match=r"observation b: keys \['extra', 'inner'\]"):
        policy.act({"a": np.float32(0), "b": {"inner": np.zeros(2), "extra": 1}})
    with pytest.raises(SpaceError, match="observation b: expected the keys"):
        policy.act({"a": np.float32(0), "b": np.zeros(2)})


def test_one_of_several_policies_is_named(tmp_path: Path) -> None:
    folder = saved(two_agents(), tmp_path)
    with pytest.raises(UserError, match="holds several policies; name one of them: left, right"):
        rlcore.load_policy(folder)
    with pytest.raises(CheckpointError, match="no policy 'middle', only: left, right"):
        rlcore.load_policy(folder, policy="middle")
    assert rlcore.load_policy(folder, policy="right").act(np.zeros(2)) in (0, 1)


WITHOUT_FRAMEWORK = """
import sys, numpy as np
import rlcore
policy = rlcore.load_policy(sys.argv[1])
print(policy.act(np.ones((4, 4), np.float32)).tolist())
loaded = sorted({name.partition(".")[0] for name in sys.modules})
print([name for name in loaded if name in ("torch", "tensorflow", "ray", "rlcore_torch", "rlcore_gym", "rlcore_sync")])
"""


@pytest.mark.parametrize("recipe", ["pg", "ppo"])
def test_no_framework_and_no_plugin_is_imported_to_act(recipe: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = saved(linear({"framework": "torch", "algorithm": recipe, "filter": "mean_std"}), tmp_path, 1)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_FRAMEWORK, str(folder)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    actions, imported = done.stdout.splitlines()
    assert imported == "[]"
    graph = rlcore.load_policy(folder, framework="torch")
    assert str(graph.act(np.ones((4, 4), np.float32)).tolist()) == actions


def test_a_checkpoint_of_one_framework_acts_in_another(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("tensorflow")
    folder = saved(linear({"framework": "torch"}), tmp_path)
    obs = np.random.default_rng(1).normal(size=(64, 4)).astype(np.float32)
    one, other = rlcore.load_policy(folder), rlcore.load_policy(folder, framework="tf")
    np.testing.assert_array_equal(one.act(obs), other.act(obs))


def change(folder: Path, **entries: Any) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["policies"]["default"].update(entries)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_import_paths_in_a_checkpoint_need_trust(tmp_path: Path) -> None:
    folder = saved(linear(), tmp_path)
    change(folder, graph="rlcore.testing.linear:LinearPG")
    with pytest.raises(CheckpointError, match=r"\.graph=rlcore\.testing\.linear:LinearPG; nothing was"):
        rlcore.load_policy(folder)
    assert rlcore.load_policy(folder, trust=True).act(np.zeros(4)) in (0, 1)


@pytest.mark.parametrize("model", [{"custom": "os:system"}, {"towers": [{"build": "os:system"}]}])
def test_code_that_a_model_names_needs_trust_whoever_would_build_it(model: dict[str, Any], tmp_path: Path) -> None:
    folder = saved(linear(), tmp_path)
    change(folder, model=model)
    named = r"names code to import: policies\.default\.model\.(custom|towers\.0\.build)=os:system; nothing was loaded"
    for read in (
        lambda: rlcore.load_policy(folder),
        lambda: rlcore.load_policy(folder, framework="numpy"),
        lambda: evaluate_saved(folder, 1),
        lambda: evaluate_saved(folder, 1, framework="numpy"),
        lambda: Trainer.restore(folder),
    ):
        with pytest.raises(CheckpointError, match=named):
            read()


@pytest.mark.parametrize(
    ("entries", "error", "message"),
    [
        ({"graph": "nunpy.pg"}, PluginError, "unknown policy graph 'nunpy.pg'"),
        ({"filter": "posix"}, CheckpointError, "knows no filter 'posix'"),
        ({"observation_space": {"type": "os.system"}}, CheckpointError, "no space can be made of"),
        ({"actor": {"kind": "os.system"}}, CheckpointError, "knows no actor of kind 'os.system'"),
        ({"actor": {"kind": "actor_critic"}}, CheckpointError, "no actor can be made of"),
        (
            {"observation_space": {"type": "unknown", "reason": "why"}},
            CheckpointError,
            r"is not in the checkpoint \(why",
        ),
        ({"policy": {"gama": 1}}, UserError, "policy.gama: unknown key, did you mean 'gamma'?"),
        ({"trained": "yes"}, UserError, "checkpoint.trained: should be a valid boolean"),
    ],
)
def test_a_manifest_that_was_changed_is_refused_in_a_line(
    entries: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    folder = saved(linear(), tmp_path, 1)
    change(folder, **entries)
    with pytest.raises(error) as caught:
        rlcore.load_policy(folder)
    assert message.replace("\\", "") in str(caught.value)


def test_what_is_no_checkpoint_of_policies(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no checkpoint at"):
        rlcore.load_policy(tmp_path / "nothing")
    rlcore.checkpoint.save_tree(tmp_path / "other", {}, {})
    with pytest.raises(CheckpointError, match="holds no policies that can act: KeyError"):
        rlcore.load_policy(tmp_path / "other")
    with pytest.raises(CheckpointError, match="is of no run: its state lacks counters, window"):
        Trainer.restore(tmp_path / "other")


def altered(folder: Path, to: Path, change: Any) -> Path:
    """A checkpoint whose digests are right, and whose contents are not."""
    tree, manifest = rlcore.checkpoint.load_tree(folder)
    changed = change(tree, manifest)
    tree, manifest = (tree, manifest) if changed is None else changed
    rlcore.checkpoint.save_tree(to, tree, {k: v for k, v in manifest.items() if k not in rlcore.checkpoint.RESERVED})
    return to


@pytest.mark.parametrize(
    "change",
    [
        lambda tree, manifest: ({}, manifest),
        lambda tree, manifest: ([], manifest),
        lambda tree, manifest: manifest.pop("weights_version") and None,
        lambda tree, manifest: manifest.pop("policies") and None,
        lambda tree, manifest: manifest.update(config=[]),
        lambda tree, manifest: tree.update(policies={}),
        lambda tree, manifest: tree.update(policies=[1]),
        lambda tree, manifest: tree["policies"]["default"].update(graph=[], filters=3),
        lambda tree, manifest: tree.update(counters=[]),
    ],
)
def test_a_checkpoint_that_no_run_has_written(change: Any, tmp_path: Path) -> None:
    folder = altered(saved(linear(), tmp_path, 1), tmp_path / "altered", change)
    for read in (Trainer.restore, evaluate_saved):
        with pytest.raises((CheckpointError, ConfigError)):
            read(folder)


@pytest.mark.parametrize("part", ["window", "row", "optimizers", "evaluators", "stop"])
@pytest.mark.parametrize("value", [3, [], {}, None])
def test_a_state_that_nothing_can_go_on_from(part: str, value: Any, tmp_path: Path) -> None:
    if part == "row" and value == {}:
        pytest.skip("the row before the first")
    folder = altered(saved(linear(), tmp_path, 1), tmp_path / "altered", lambda tree, _: tree.update({part: value}))
    with pytest.raises(CheckpointError):
        Trainer.restore(folder)


def test_a_run_folder_stands_for_its_last_checkpoint(tmp_path: Path) -> None:
    with Trainer(linear({"checkpoints.every": 1}), out=tmp_path / "run") as trainer:
        with pytest.raises(CheckpointError, match="has no checkpoint yet"):
            rlcore.load_policy(tmp_path / "run")
        trainer.train()
    assert rlcore.load_policy(tmp_path / "run").weights_version == 3
    assert rlcore.load_policy(tmp_path / "run" / "checkpoints" / "2").weights_version == 2


SPACES: list[Space[Any]] = [
    Box(-np.inf, np.inf, (3,), np.float32),
    Box(np.array([0.0, -np.inf]), np.array([0.1, 3.0]), dtype=np.float64),
    Box(0, 255, (84, 84, 4), np.uint8),
    Box(0.0, 1.0, (), np.float32),
    Box(-1, 1, (0,), np.float32),
    Box(0, 2**64 - 1, (2,), np.uint64),
    Box(np.array([0, 1], np.uint64), np.array([1, 2**64 - 1], np.uint64), dtype=np.uint64),
    Box(np.array([-1.5, -np.inf], np.float16), np.array([0.1, 7], np.float16), dtype=np.float16),
    Box(0, 1, (2, 2), np.bool_),
    Box(np.iinfo(np.int64).min, np.iinfo(np.int64).max, (2,), np.int64),
    Discrete(5),
    Discrete(3, start=-2, dtype=np.int32),
    MultiDiscrete([[2, 3], [4, 5]]),
    MultiDiscrete(np.array([2, 3], np.int32), dtype=np.int32, start=np.array([1, -1], np.int32)),
    MultiDiscrete([[2, 3], [4, 5]], start=[[-9, 0], [1, 7]]),
    MultiBinary(4),
    MultiBinary([2, 3]),
    Dict(z=Box(0, 1, (1,)), a=Tuple([Discrete(2), Dict(x=MultiBinary(1))])),
    Dict([("z", Discrete(2)), ("a", Dict(action_mask=Box(0, 1, (2, 2), np.int8)))]),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_spaces_survive_being_written_down(space: Space[Any]) -> None:
    again = space_from_json(json.loads(json.dumps(space_to_json(space), allow_nan=False)))
    assert again == space and again.dtype == space.dtype
    if isinstance(space, Dict):
        assert isinstance(again, Dict) and list(again.spaces) == list(space.spaces)


def test_bounds_that_are_all_equal_are_one_number() -> None:
    assert space_to_json(Box(0, 255, (84, 84, 4), np.uint8)) == {
        "type": "Box",
        "low": 0,
        "high": 255,
        "shape": [84, 84, 4],
        "dtype": "uint8",
    }


def test_spaces_that_cannot_be_written_down_are_refused_by_name() -> None:
    with pytest.raises(SpaceError, match="Text spaces cannot be written down"):
        space_to_json(Text(3))
