from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import pytest
from pydantic import BaseModel

from rlcore.config import RunConfig, marked_objects, object_name, parse_config
from rlcore.config_text import dump_yaml, nested, parse_settings, parse_yaml, read_config
from rlcore.errors import ConfigError
from rlcore.layers import Layer, Lent, merge_layers

MINIMAL: dict[str, Any] = {"algorithm": "ppo", "env": "CartPole-v1"}

FULL = """
algorithm: ppo
framework: torch
env: CartPole-v1
env_settings: {}
policy: {learning_rate: 3.0e-4}
model: {hidden: [64, 64], activation: tanh, lstm: 0}
filter: none
optimizer: {name: multi_gpu, minibatch_size: 256}
evaluators: {count: 2, envs: 8, fragment: 128}
policies: {a: {graph: torch.ppo, policy: {}, optimizer: {name: multi_gpu}, trained: true}}
policy_of: null
evaluation: {every_env_steps: 5000, episodes: 20}
checkpoints: {every: 10, keep: 3, best: true, replay: true}
resources: {learner_gpus: 0}
runtime: ray
seed: 1
stop: {episode_return_mean: 475, env_steps: 500000}
"""

# A value other than the default for every option; the walk below fails for one that has none here.
SAMPLES: dict[str, Any] = {
    "algorithm": "a2c",
    "framework": "mine",
    "env": "gym:Acrobot-v1",
    "env_settings": {"anything": {"deep": [1, "two"]}},
    "policy": {"learning_rate": 0.1},
    "model": {"hidden": [8]},
    "filter": "mean_std",
    "reward_filter": "clip",
    "optimizer.name": "allreduce",
    "evaluators.count": 3,
    "evaluators.envs": 5,
    "evaluators.fragment": 7,
    "evaluators.episodes": 9,
    "evaluators.cpus": 0.5,
    "evaluators.gpus": 0.25,
    "evaluators.custom": {"simulator": 2.0},
    "evaluators.room_timeout_s": 3.5,
    "evaluators.timeout_s": 12.5,
    "evaluators.sample_fraction": 0.8,
    "evaluators.sample_timeout_s": 2.5,
    "evaluators.max_late_rounds": 3,
    "policies.a.graph": "mine.pg",
    "policies.a.policy": {"gamma": 0.5},
    "policies.a.model": {"hidden": []},
    "policies.a.optimizer.name": "allreduce",
    "policies.a.trained": False,
    "policy_of": {"red": "a", 1: "b"},
    "evaluation.every_env_steps": 100,
    "evaluation.episodes": 3,
    "evaluation.video_every": 4,
    "evaluation.video_episodes": 2,
    "checkpoints.every": 2,
    "checkpoints.keep": 1,
    "checkpoints.best": False,
    "checkpoints.replay": False,
    "resources.learner_gpus": 1,
    "runtime.name": "inline",
    "seed": 12,
    "stop": {"any_row_key": -3.5},
}


def options(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        key = f"{prefix}{name}"
        inner = [field.annotation, *getattr(field.annotation, "__args__", ())]
        models = [part for part in inner if isinstance(part, type) and issubclass(part, BaseModel)]
        if not models:
            yield key
        # A mapping from names to sections is walked under the name "a".
        elif getattr(field.annotation, "__origin__", None) is dict:
            yield from options(models[0], f"{key}.a.")
        else:
            yield from options(models[0], f"{key}.")


@pytest.mark.parametrize("key", list(options(RunConfig)))
def test_B164_every_option_is_accepted_and_arrives(key: str) -> None:
    config = parse_config({**MINIMAL, **nested({key: SAMPLES[key]})})
    value: Any = config
    for part in key.split("."):
        value = value[part] if isinstance(value, dict) else getattr(value, part)
    assert value == SAMPLES[key]


def test_B164_the_whole_config_of_the_manual_is_accepted() -> None:
    config = parse_config(parse_yaml(FULL))
    assert config.policy == {"learning_rate": 3.0e-4}
    assert config.optimizer.settings == {"minibatch_size": 256}
    assert config.policies["a"].optimizer is not None and config.policies["a"].optimizer.name == "multi_gpu"
    assert config.stop == {"episode_return_mean": 475.0, "env_steps": 500000.0}


def test_a_config_survives_being_written_as_yaml() -> None:
    config = parse_config(parse_yaml(FULL))
    assert parse_config(parse_yaml(dump_yaml(config.to_tree()))) == config


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"evaluatrs": {}}, "evaluatrs: unknown key, did you mean 'evaluators'?"),
        ({"evaluators": {"env": 8}}, "evaluators.env: unknown key, did you mean 'envs'?"),
        ({"checkpoints": {"zzz": 1}}, "checkpoints.zzz: unknown key; there are: best, every, keep, replay"),
        ({"policies": {"a": {"graf": "x"}}}, "policies.a.graf: unknown key, did you mean 'graph'?"),
    ],
)
def test_B163_unknown_keys_are_refused_with_the_closest_one(settings: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config({**MINIMAL, **settings})
    assert str(caught.value) == line


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"seed": "one"}, "seed: should be a valid integer, not 'one'"),
        ({"seed": True}, "seed: should be a valid integer, not True"),
        ({"seed": 1.5}, "seed: should be a valid integer, not 1.5"),
        ({"seed": -1}, "seed: should be greater than or equal to 0, not -1"),
        ({"evaluators": {"envs": 0}}, "evaluators.envs: should be greater than or equal to 1, not 0"),
        ({"evaluators": {"envs": "8"}}, "evaluators.envs: should be a valid integer, not '8'"),
        ({"policy": [1]}, "policy: should be keys and values, not [1]"),
        ({"policy": None}, "policy: should be keys and values, not None"),
        ({"optimizer": "multi_gpu"}, "optimizer: should be keys and values, not 'multi_gpu'"),
        ({"filter": "meanstd"}, "filter: should be 'none' or 'mean_std', not 'meanstd'"),
        ({"stop": {"env_steps": "many"}}, "stop.env_steps: should be a valid number, not 'many'"),
        ({"stop": 5}, "stop: should be keys and values, not 5"),
        ({"env": 5}, "env: should be the name of an environment, a class or a callable, not 5"),
        ({"policy_of": 5}, "policy_of: should be {agent: policy} or package.module:function, not 5"),
        ({"policy_of": {"a": 1}}, "policy_of: should map agents to names of policies, not to 1"),
        ({"evaluators": {"custom": {"CPU": 1}}}, "evaluators.custom: 'CPU' is not for here: use evaluators.cpus"),
        ({"evaluators": {"custom": {"GPU": 1}}}, "evaluators.custom: 'GPU' is not for here: use evaluators.gpus"),
        (
            {"evaluators": {"custom": {"memory": 1}}},
            "evaluators.custom: 'memory' is a resource of Ray's own, which evaluators do not ask for",
        ),
        (
            {"evaluators": {"fragment": 5, "episodes": 2}},
            "evaluators: give 'fragment' (steps) or 'episodes' (complete ones), not both",
        ),
    ],
)
def test_wrong_values_are_refused_by_dotted_key(settings: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config({**MINIMAL, **settings})
    assert str(caught.value) == line


def test_every_fault_has_a_line_of_its_own() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config({"algorithm": 1, "evaluators": {"count": "x"}})
    assert str(caught.value).splitlines() == [
        "algorithm: should be a valid string, not 1",
        "env: missing",
        "evaluators.count: should be a valid integer, not 'x'",
    ]


def test_B166_free_form_places_take_anything() -> None:
    config = parse_config({**MINIMAL, "env_settings": {"anything": 1, "nested": {"deep": [None]}}})
    assert config.env_settings == {"anything": 1, "nested": {"deep": [None]}}


def test_a_dict_space_among_the_environments_settings_stays_a_space() -> None:
    space = gymnasium.spaces.Dict(z=gymnasium.spaces.Discrete(2), a=gymnasium.spaces.Discrete(3))
    settings = {**MINIMAL, "env_settings": {"space": space, "spaces": [space], "deep": {"space": space}}}
    merged, provenance = merge_layers(Lent([], []), [Layer("config", settings)])
    kept = parse_config(merged).env_settings
    assert kept["space"] is kept["spaces"][0] is kept["deep"]["space"] is space
    assert provenance.sources["env_settings.space"] == provenance.sources["env_settings.deep.space"] == "config"


def test_counts_may_be_written_with_an_exponent() -> None:
    assert parse_config({**MINIMAL, **parse_yaml("evaluation: {every_env_steps: 5e3}")}).evaluation == (
        parse_config({**MINIMAL, "evaluation": {"every_env_steps": 5000}}).evaluation
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("env: [CartPole", "run.yaml is not YAML: line 1, column 15: expected ',' or ']', but got '<stream end>'"),
        ("env: a: b", "run.yaml is not YAML: line 1, column 7: mapping values are not allowed here"),
        ("\tenv: a", "run.yaml is not YAML: line 1, column 1: found character '\\t' that cannot start any token"),
        ("just words", "run.yaml: expected 'key: value' lines, found 'just words'"),
        ("- a\n- b", "run.yaml: expected 'key: value' lines, found ['a', 'b']"),
        ("1: 2", "run.yaml: keys should be texts, not 1"),
        ("seed: 1\nseed: 2", "run.yaml is not YAML: line 2, column 1: the key 'seed' stands twice"),
        (
            "env: !!python/object:os.system {}",
            "run.yaml is not YAML: line 1, column 6: could not determine a constructor",
        ),
    ],
)
def test_what_is_no_yaml_is_said_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, "run.yaml")
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_a_file_that_is_missing_or_no_text(tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the config .*nothing\.yaml"):
        read_config(tmp_path / "nothing.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"cannot read the config .*binary\.yaml"):
        read_config(tmp_path / "binary.yaml")


def test_numbers_of_yaml_have_exponents_without_a_dot() -> None:
    assert parse_yaml("{a: 3e-4, b: 1E5, c: 2.5e+3, d: e5}") == {"a": 3e-4, "b": 1e5, "c": 2500.0, "d": "e5"}


def test_settings_of_the_command_line() -> None:
    pairs = parse_settings(["policy.learning_rate=3e-4", "model.hidden=[8, 8]", "env=a=b", "stop.a.b=1"], "--set")
    assert pairs == {"policy.learning_rate": 3e-4, "model.hidden": [8, 8], "env": "a=b", "stop.a.b": 1}
    assert nested(pairs) == {
        "policy": {"learning_rate": 3e-4},
        "model": {"hidden": [8, 8]},
        "env": "a=b",
        "stop": {"a.b": 1},
    }


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("policy", "--set policy: expected key=value"),
        ("=5", "--set =5: expected key=value"),
        ("a=[1", "--set a=[1: line 1, column 3: expected ',' or ']', but got '<stream end>'"),
    ],
)
def test_settings_of_the_command_line_that_cannot_be_read(pair: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_settings([pair], "--set")
    assert str(caught.value) == message


def test_a_key_below_a_value_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"env\.x: 'env' was set to 'a' before"):
        nested({"env": "a", "env.x": 1})


def test_python_objects_are_written_as_import_paths_or_marked() -> None:
    def local(**settings: Any) -> None: ...

    assert object_name(RunConfig) == "rlcore.config:RunConfig"
    assert object_name(local) == (
        "<python object test_python_objects_are_written_as_import_paths_or_marked.<locals>.local>"
    )
    config = parse_config({"algorithm": "a", "env": local, "env_settings": {"f": [local], "x": 1}})
    tree = config.to_tree()
    assert tree["env_settings"]["x"] == 1
    assert marked_objects(tree) == ["env", "env_settings.f.0"]
