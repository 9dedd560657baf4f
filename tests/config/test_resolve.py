from __future__ import annotations

from typing import Any

import pytest

import rlcore
from rlcore.acting import ModelConfig
from rlcore.algorithm import Algorithm
from rlcore.config import parse_config
from rlcore.config_text import dump_yaml, parse_settings, parse_yaml
from rlcore.errors import ConfigError, PluginError
from rlcore.policy_graph import GraphConfig, PolicyGraph
from rlcore.policy_optimizer import OptimizerConfig, PolicyOptimizer
from rlcore.resolve import Resolved, resolve
from rlcore.schedule import Schedule


class Incomplete:
    """Stands in for the parts of a class that resolving never calls."""

    act = gradients = apply_gradients = get_state = set_state = step = get_weights = get_progress = None


class LearntConfig(GraphConfig):
    learning_rate: Schedule = 0.5
    gamma: float = 0.9
    epochs: int = 1
    model: ModelConfig = ModelConfig()


class BareConfig(GraphConfig):
    learning_rate: float = 0.25


@rlcore.register("policy_graph", "resolving.learnt")
class Learnt(Incomplete, PolicyGraph):  # type: ignore[misc]
    Config = LearntConfig


@rlcore.register("policy_graph", "bare.learnt")
class Bare(Incomplete, PolicyGraph):  # type: ignore[misc]
    Config = BareConfig


class OneConfig(OptimizerConfig):
    size: int = 1
    speed: float = 1.0
    seed: int = 0


class TwoConfig(OptimizerConfig):
    depth: int = 1


@rlcore.register("optimizer", "resolving_one")
class One(Incomplete, PolicyOptimizer):  # type: ignore[misc]
    Config = OneConfig


@rlcore.register("optimizer", "resolving_two")
class Two(Incomplete, PolicyOptimizer):  # type: ignore[misc]
    Config = TwoConfig


@rlcore.register("algorithm", "resolving_recipe")
class Recipe(Algorithm):
    policy_graph = "learnt"
    optimizer = "resolving_one"
    policy = {"learning_rate": 0.1, "gamma": 0.8}
    model = {"hidden": [8]}
    optimizers = {"resolving_one": {"size": 10, "speed": 2.0}, "resolving_two": {"depth": 20}}
    evaluators = {"count": 3, "envs": 4, "fragment": 32}
    settings = {
        "Tuned-v1": {
            "policy": {"gamma": 0.7},
            "optimizers": {"resolving_one": {"size": 11}, "resolving_two": {"depth": 21}},
            "evaluators": {"episodes": 6},
            "filter": "mean_std",
        }
    }


def resolved(overrides: dict[str, Any] | None = None, *, env_settings: bool = True, **settings: Any) -> Resolved:
    base = {"algorithm": "resolving_recipe", "framework": "resolving", "env": "Other-v1"}
    return resolve({**base, **settings}, overrides=overrides, env_settings=env_settings)


def test_films_of_evaluations_that_never_come_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^evaluation\.video_every: .* set evaluation\.every_env_steps as well$"):
        resolved(evaluation={"video_every": 2})
    overrides = {"evaluation.every_env_steps": 100}
    assert resolved(overrides, evaluation={"video_every": 2}).config.evaluation.video_every == 2


def test_the_recipe_lends_what_nobody_says() -> None:
    run = resolved()
    assert run.config.policy == {"learning_rate": 0.1, "gamma": 0.8, "epochs": 1}
    assert run.config.model == {**ModelConfig().model_dump(mode="json"), "hidden": [8]}
    assert run.config.optimizer.name == "resolving_one"
    assert run.config.optimizer.settings == {"size": 10, "speed": 2.0}
    assert (run.config.evaluators.count, run.config.evaluators.envs, run.config.evaluators.fragment) == (3, 4, 32)
    assert run.policies["default"].graph == "resolving.learnt"


def test_each_layer_overrules_the_ones_before_key_by_key() -> None:
    run = resolved(
        {"policy.epochs": 5, "optimizer.size": 13},
        env="Tuned-v1",
        policy={"learning_rate": 0.2, "epochs": 4},
        optimizer={"speed": 3.0, "size": 12},
    )
    assert run.config.policy == {"learning_rate": 0.2, "gamma": 0.7, "epochs": 5}
    assert run.config.optimizer.settings == {"size": 13, "speed": 3.0}
    assert run.config.filter == "mean_std"
    sources = run.provenance.sources
    assert sources["policy.gamma"] == "settings of resolving_recipe for Tuned-v1"
    assert sources["policy.learning_rate"] == "config"
    assert sources["policy.epochs"] == sources["optimizer.size"] == "command line"
    assert sources["model.hidden"] == "recipe resolving_recipe"


def test_a_run_can_say_what_it_used() -> None:
    run = resolved({"seed": 7}, env="gym:Tuned-v1")
    assert run.provenance.lines(run.config) == [
        "recipe resolving_recipe: optimizer.speed=2.0, optimizer.name='resolving_one', policy.learning_rate=0.1, "
        "model.hidden=[8], evaluators.count=3, evaluators.envs=4",
        "settings of resolving_recipe for Tuned-v1: optimizer.size=11, policy.gamma=0.7, filter='mean_std', "
        "evaluators.episodes=6",
        "config: algorithm='resolving_recipe', framework='resolving', env='gym:Tuned-v1'",
        "command line: seed=7",
    ]


def test_settings_for_an_environment_hold_whichever_source_it_comes_from_and_can_be_turned_off() -> None:
    assert resolved(env="anything:Tuned-v1").config.policy["gamma"] == 0.7
    assert resolved(env="Tuned-v1", env_settings=False).config.policy["gamma"] == 0.8
    assert resolved(env="Tuned-v1", env_settings=False).config.filter == "none"


def test_episodes_of_a_later_layer_replace_the_fragment_and_the_other_way_round() -> None:
    tuned = resolved(env="Tuned-v1").config.evaluators
    assert (tuned.episodes, tuned.fragment) == (6, None)
    asked = resolved(env="Tuned-v1", evaluators={"fragment": 5}).config.evaluators
    assert (asked.episodes, asked.fragment) == (None, 5)
    both = resolved({"evaluators.episodes": 7}, evaluators={"fragment": 5}).config.evaluators
    assert (both.episodes, both.fragment) == (7, None)
    with pytest.raises(ConfigError, match=r"^evaluators: give 'fragment' \(steps\) or 'episodes'"):
        resolved(evaluators={"fragment": 5, "episodes": 5})


def test_another_optimizer_is_one_changed_word() -> None:
    run = resolved({"optimizer.name": "resolving_two"}, env="Tuned-v1")
    assert (run.config.optimizer.name, run.config.optimizer.settings) == ("resolving_two", {"depth": 21})
    assert run.config.policy["gamma"] == 0.7
    assert run.provenance.left_out == {}


def test_settings_given_for_one_optimizer_do_not_reach_another() -> None:
    run = resolved({"optimizer.name": "resolving_two"}, optimizer={"size": 5})
    assert run.config.optimizer.settings == {"depth": 20}
    assert run.provenance.left_out == {"optimizer.size": "given for resolving_one, and the optimizer is resolving_two"}
    with pytest.raises(ConfigError, match=r"^optimizer\.size: unknown key; there are: depth, name$"):
        resolved(optimizer={"name": "resolving_two", "size": 5})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"policy": {"learnin_rate": 1e-3}}, "policy.learnin_rate: unknown key, did you mean 'learning_rate'?"),
        ({"optimizer": {"sized": 3}}, "optimizer.sized: unknown key, did you mean 'size'?"),
        ({"model": {"hiden": [3]}}, "policy.model.hiden: unknown key, did you mean 'hidden'?"),
        ({"polcy": {}}, "polcy: unknown key, did you mean 'policy'?"),
    ],
)
def test_B163_unknown_keys_of_the_parts_are_refused_with_the_closest_one(settings: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolved(**settings)
    assert str(caught.value) == message.replace("policy.model", "model")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"policy": {"epochs": "many"}}, "policy.epochs: should be a valid integer, not 'many'"),
        ({"policy": {"gamma": True}}, "policy.gamma: should be a valid number, not True"),
        ({"policy": {"gamma": None}}, "policy.gamma: should be a valid number, not None"),
        ({"policy": {"learning_rate": [[0, 1], [0, 2]]}}, "policy.learning_rate: "),
        ({"policy": {"gamma": object}}, "policy: "),
        ({"optimizer": {"size": [1]}}, "optimizer.size: should be a valid integer, not [1]"),
        ({"model": {"activation": "gelu"}}, "model.activation: should be 'tanh' or 'relu', not 'gelu'"),
        ({"policy": {"model": {}}}, "policy.model: stands at 'model'"),
    ],
)
def test_wrong_values_of_the_parts_are_refused_by_dotted_key(settings: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolved(**settings)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_a_graph_without_what_the_recipe_sets_is_served_and_told() -> None:
    run = resolved(framework="bare")
    assert run.config.policy == {"learning_rate": 0.1} and run.config.model == {}
    assert run.provenance.left_out == {
        "policy.gamma": "bare.learnt has no such setting",
        "model.hidden": "bare.learnt has no model settings",
    }
    with pytest.raises(ConfigError, match=r"^policy\.gamma: unknown key"):
        resolved(framework="bare", policy={"gamma": 0.5})
    with pytest.raises(ConfigError, match=r"^model: bare\.learnt has no model settings$"):
        resolved(framework="bare", model={"hidden": [4]})


def test_the_framework_is_found_where_none_is_asked_for() -> None:
    run = resolve({"algorithm": "resolving_recipe", "env": "Other-v1"})
    assert (run.config.framework, run.policies["default"].graph) == ("bare", "bare.learnt")


def test_parts_that_cannot_be_had_are_named() -> None:
    with pytest.raises(PluginError, match=r"resolving_recip'; did you mean 'resolving_recipe'"):
        resolved(algorithm="resolving_recip")
    with pytest.raises(PluginError, match=r"^unknown framework 'resolvin'; did you mean 'resolving'"):
        resolved(framework="resolvin")
    with pytest.raises(PluginError, match=r"'resolving_on'; did you mean 'resolving_one'"):
        resolved(optimizer={"name": "resolving_on"})


def test_the_runtime_is_inline_unless_the_user_asks_for_evaluators(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolved().config.runtime.name == "inline"
    assert resolved({"evaluators.envs": 2}).config.runtime.name == "inline"
    assert resolved({"evaluators.count": 0}).config.runtime.name == "inline"
    assert resolved({"evaluators.count": 2, "runtime": "inline"}).config.runtime.name == "inline"
    asked: list[tuple[str, str]] = []
    load = rlcore.registry.load

    def noting(kind: str, name: str) -> Any:
        asked.append((kind, name))
        return load(kind, "inline") if kind == "runtime" else load(kind, name)

    monkeypatch.setattr(rlcore.registry, "load", noting)
    assert resolved({"evaluators.count": 2}).config.runtime.name == "ray"
    assert resolved(evaluators={"count": 2}).config.runtime.name == "ray"
    assert ("runtime", "ray") in asked


@pytest.mark.parametrize(
    ("settings", "overrides", "message"),
    [
        ({"optimizer": "multi_gpu"}, {"optimizer.name": "resolving_two"}, "optimizer: should be keys and values, .*"),
        ({"stop": [1]}, {"stop.iteration": 1}, r"stop: should be keys and values, not \[1\]"),
        ({"seed": "x"}, {"seed": 1}, "seed: should be a valid integer, not 'x'"),
        ({"optimizer": "multi_gpu"}, None, "optimizer: should be keys and values, not 'multi_gpu'"),
        ({"evaluators": 3}, None, "evaluators: should be keys and values, not 3"),
    ],
)
def test_what_one_source_gets_wrong_is_refused_where_another_overrules_it_too(
    settings: Any, overrides: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{message}$"):
        resolved(overrides, **settings)


def test_an_unknown_runtime_is_refused() -> None:
    with pytest.raises(PluginError, match="'inlin'; did you mean 'inline'"):
        resolved(runtime="inlin")


def test_several_policies_each_have_their_own_settings() -> None:
    run = resolved(
        policies={
            "a": {"policy": {"gamma": 0.3}, "model": {"activation": "relu"}},
            "b": {"graph": "bare.learnt", "optimizer": {"name": "resolving_two"}, "trained": False},
            "c": {"optimizer": {"size": 99}},
        },
        policy_of={"red": "a", "blue": "b"},
    )
    a, b, c = run.policies["a"], run.policies["b"], run.policies["c"]
    assert a.graph == c.graph == "resolving.learnt"
    assert a.policy == {"learning_rate": 0.1, "gamma": 0.3, "epochs": 1}
    assert a.model == {**ModelConfig().model_dump(mode="json"), "hidden": [8], "activation": "relu"}
    assert a.optimizer.settings == {"size": 10, "speed": 2.0}
    assert (b.graph, b.policy, b.trained) == ("bare.learnt", {"learning_rate": 0.1}, False)
    assert b.optimizer.settings == {"depth": 20}
    assert c.optimizer.settings == {"size": 99, "speed": 2.0}
    assert run.config.policies == run.policies


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"policies": {"a": {"policy": {"gama": 1.0}}}},
            "policies.a.policy.gama: unknown key, did you mean 'gamma'?",
        ),
        (
            {"policies": {"a": {"optimizer": {"sice": 1}}}},
            "policies.a.optimizer.sice: unknown key, did you mean 'size'?",
        ),
        ({"policies": {"a": {"model": {"hiden": [1]}}}}, "policies.a.model.hiden: unknown key, did you mean 'hidden'?"),
        (
            {"policies": {"a": {"model": {"lstm": -1}}}},
            "policies.a.model.lstm: should be greater than or equal to 0, not -1",
        ),
        ({"policies": {"a": {}}, "policy_of": {"x": "b"}}, "policy_of: no policy b; there are: a"),
    ],
)
def test_faults_in_one_of_several_policies_are_named(settings: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolved(**settings)
    assert str(caught.value) == message


def test_resolving_what_was_resolved_and_written_changes_nothing() -> None:
    for settings in ({"env": "Tuned-v1"}, {"policies": {"a": {}, "b": {"graph": "bare.learnt"}}}):
        run = resolved(**settings)
        again = resolve(parse_yaml(dump_yaml(run.config.to_tree())))
        assert (again.config, again.policies) == (run.config, run.policies)


def test_a_config_object_counts_with_what_it_says_only() -> None:
    config = parse_config({"algorithm": "resolving_recipe", "framework": "resolving", "env": "Tuned-v1"})
    assert resolve(config).config.filter == "mean_std"


def test_two_runs_of_one_recipe_share_no_setting() -> None:
    first = resolved()
    first.config.model["hidden"].append(1)
    first.config.policy["gamma"] = 0.0
    assert resolved().config.model["hidden"] == [8] and resolved().config.policy["gamma"] == 0.8
    assert Recipe.model == {"hidden": [8]}


def test_recipes_name_no_stop_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recipe, "settings", {"Tuned-v1": {"stop": {"env_steps": 1}}})
    with pytest.raises(ConfigError, match="the settings of resolving_recipe for Tuned-v1 name stop keys"):
        resolved(env="Tuned-v1")


def test_settings_as_the_command_line_gives_them() -> None:
    run = resolved(parse_settings(["policy.learning_rate=[[0, 1.0], [10, 0.5]]", "stop.episodes=3"], "--set"))
    assert run.config.policy["learning_rate"] == [[0.0, 1.0], [10.0, 0.5]]
    assert run.config.stop == {"episodes": 3.0}


@pytest.mark.parametrize(
    ("settings", "overrides", "message"),
    [
        ({}, {"policy.entropy.coeff": 0.1}, r"policy\.entropy: unknown key"),
        ({}, {"policy.x.y": 3}, r"policy\.x: unknown key"),
        ({}, {"policy..gamma": 3}, r"policy\.\.gamma: a dotted key has a name between any two dots"),
        ({}, {"stop.": 3}, r"stop\.: a dotted key has a name"),
        ({"policy": {"entropy": {"coeff": 1}}}, {}, r"policy\.entropy: unknown key"),
        ({"policy": {"entropy": {}}}, {}, r"policy\.entropy: unknown key"),
        ({"policies": {"a": {"policy": {"x": {"y": 1}}}}}, {}, r"policies\.a\.policy\.x: unknown key"),
        ({"model": {"x": {}}}, {}, r"model\.x: unknown key"),
        ({"optimizer": {"x": {"y": 1}}}, {}, r"optimizer\.x: unknown key"),
    ],
)
def test_an_unknown_key_is_refused_whatever_its_value(settings: Any, overrides: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        resolved(overrides, **settings)


def test_a_negative_rate_is_refused() -> None:
    base = {"algorithm": "pg", "framework": "numpy", "env": "CartPole-v1"}
    for rate, lowest in ((-1, -1), ([[0, 0.1], [10, -0.5]], -0.5)):
        with pytest.raises(ConfigError, match=rf"^policy\.learning_rate: should be 0 or more, not {lowest}$"):
            resolve(base, overrides={"policy.learning_rate": rate})


def test_an_environment_is_tuned_under_the_id_that_it_really_has() -> None:
    base = {"algorithm": "pg", "framework": "numpy"}
    tuned = resolve({**base, "env": "CartPole-v1"})
    for name in ("CartPole", "gym:CartPole", "gym:CartPole-v1"):
        run = resolve({**base, "env": name})
        assert run.provenance.layers == tuned.provenance.layers and run.config.policy == tuned.config.policy
        assert run.config.env == name


def test_a_framework_that_lacks_the_graph_is_no_unknown_one() -> None:
    with pytest.raises(PluginError, match=r"^framework 'numpy' has no policy graph 'ppo' \(it has: pg\)") as caught:
        resolve({"algorithm": "ppo", "framework": "numpy", "env": "CartPole-v1"})
    # Another graph would be another algorithm.
    assert "did you mean" not in str(caught.value) and "numpy.pg" not in str(caught.value)
    with pytest.raises(PluginError, match=r"^unknown framework 'numpi'; did you mean 'numpy'\?\n"):
        resolve({"algorithm": "pg", "framework": "numpi", "env": "CartPole-v1"})


@pytest.mark.parametrize("algorithm", ["a3c", "impala", "appo"])
def test_what_has_no_effect_on_the_chosen_rule_is_refused(algorithm: str) -> None:
    pytest.importorskip("rlcore_torch")
    base = {"algorithm": algorithm, "framework": "torch", "env": "CartPole-v1"}
    with pytest.raises(ConfigError, match=r"^policy: rmsprop_decay has no effect with update_rule: adam; [^\n]*$"):
        resolve(base, overrides={"policy.update_rule": "adam", "policy.rmsprop_decay": 0.99})
    run = resolve(base, overrides={"policy.update_rule": "rmsprop", "policy.rmsprop_decay": 0.9})
    assert run.config.policy["rmsprop_decay"] == 0.9
    # What a run has written is read again when it is gone on with.
    assert resolve(run.config.model_dump(mode="json", exclude_none=True)).config.policy == run.config.policy


@pytest.mark.parametrize(
    ("algorithm", "key", "value", "message"),
    [
        ("ppo", "learning_rate", -1, "should be 0 or more, not -1"),
        ("ppo", "entropy_coeff", [[0, 0.1], [9, -0.1]], "should be 0 or more, not -0.1"),
        ("ppo", "clip", 0, "should be above 0, not 0 all the time"),
        ("appo", "clip", None, r"should be a finite number or a list of \[env_step, value\], not None"),
        ("impala", "learning_rate", -1, "should be 0 or more, not -1"),
        ("dqn", "learning_rate", -1, "should be 0 or more, not -1"),
        ("dqn", "learning_rate", "fast", r"should be a finite number or a list of \[env_step, value\], not 'fast'"),
    ],
)
def test_schedules_are_refused_in_one_line(algorithm: str, key: str, value: Any, message: str) -> None:
    pytest.importorskip("rlcore_torch")
    with pytest.raises(ConfigError, match=rf"^policy\.{key}: {message}$"):
        resolve(
            {"algorithm": algorithm, "framework": "torch", "env": "CartPole-v1"}, overrides={f"policy.{key}": value}
        )
