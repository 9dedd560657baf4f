"""The settings and seeds of the trials, their runs, and what they need of the cluster."""

from __future__ import annotations

from typing import Any

import pytest

from rlcore.errors import ConfigError
from rlcore_tune.config import SearchConfig, parse_search
from rlcore_tune.trials import draw_trials, named_code, settings_in, trial_seed, trial_specs

pytest.importorskip("rlcore_sync")
pytest.importorskip("rlcore_gym")


def search(**changes: Any) -> SearchConfig:
    settings = {
        "algorithm": "pg",
        "env": "CartPole-v1",
        "config": {"framework": "numpy", "stop": {"env_steps": 100}},
        "space": {"policy.learning_rate": {"log_uniform": [1e-4, 1e-1]}},
        "trials": 3,
    }
    return parse_search({**settings, **changes})


def test_the_same_seed_draws_the_same_trials_and_more_trials_begin_with_those_of_fewer() -> None:
    drawn = draw_trials(search(seed=1))
    assert drawn == draw_trials(search(seed=1)) == draw_trials(search(seed=1, trials=5))[:3]
    assert len({trial["policy.learning_rate"] for trial in drawn + draw_trials(search(seed=2))}) == 6


def test_another_key_changes_nothing_of_those_before_it_in_the_alphabet() -> None:
    space = {"policy.learning_rate": {"log_uniform": [1e-4, 1e-1]}, "zeta": {"uniform": [0, 1]}}
    alone, both = draw_trials(search()), draw_trials(search(space=space))
    assert [each["policy.learning_rate"] for each in both] == [each["policy.learning_rate"] for each in alone]


def test_each_draw_is_tried_with_every_point_of_the_grid() -> None:
    space = {
        "policy.gamma": {"grid": [0.9, 0.99]},
        "policy.learning_rate": {"log_uniform": [1e-4, 1e-1]},
        "evaluators.envs": {"grid": [1, 2]},
    }
    drawn = draw_trials(search(space=space, trials=2))
    points = [(each["policy.gamma"], each["evaluators.envs"]) for each in drawn]
    assert points == 2 * [(0.9, 1), (0.9, 2), (0.99, 1), (0.99, 2)]
    rates = [each["policy.learning_rate"] for each in drawn]
    assert len(set(rates[:4])) == len(set(rates[4:])) == 1 and rates[0] != rates[4]


def test_seeds_of_trials_follow_from_that_of_the_search() -> None:
    specs = trial_specs(search(seed=5), draw_trials(search(seed=5)))
    seeds = [spec.run(settings).config.seed for spec, settings in zip(specs, draw_trials(search(seed=5)), strict=True)]
    assert seeds == [trial_seed(5, index) for index in range(3)]
    # One that has taken over from another draws other numbers than before, and than the other one.
    every = {trial_seed(seed, trial, at) for seed in (5, 6) for trial in range(3) for at in (0, 1000)}
    assert len(every) == 12


def test_a_run_has_the_settings_of_its_trial_and_ends_where_the_scheduler_says() -> None:
    asked = search(scheduler={"name": "asha", "min_env_steps": 10, "max_env_steps": 90})
    (spec, *_) = trial_specs(asked, draw_trials(asked))
    run = spec.run({"policy.learning_rate": 0.5})
    assert run.policies["default"].policy["learning_rate"] == 0.5
    # The earlier of the scheduler's and the user's own.
    assert run.config.stop == {"env_steps": 90}
    assert settings_in(run.config.to_tree(), ("policy.learning_rate",)) == {"policy.learning_rate": 0.5}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"space": {"policy.lerning_rate": {"uniform": [0, 1]}}},
            "space.policy.lerning_rate: unknown key, did you mean 'learning_rate'?",
        ),
        (
            {"space": {"policy.learning_rate": {"choice": ["fast"]}}},
            "space.policy.learning_rate: should be a finite number or a list of [env_step, value], not 'fast'",
        ),
        (
            {"config": {"framework": "numpy", "policy": {"gama": 1}, "stop": {"env_steps": 1}}},
            "config.policy.gama: unknown key, did you mean 'gamma'?",
        ),
    ],
)
def test_what_no_run_can_have_is_said_before_anything_runs(changes: dict[str, Any], said: str) -> None:
    asked = search(**changes)
    with pytest.raises(ConfigError) as error:
        trial_specs(asked, draw_trials(asked))
    assert str(error.value) == said


def test_a_value_that_only_a_later_trial_has_is_found_as_well() -> None:
    asked = search(space={"evaluators.envs": {"grid": [1, 0]}})
    with pytest.raises(ConfigError, match=r"^space\.evaluators\.envs: should be greater than or equal to 1, not 0$"):
        trial_specs(asked, draw_trials(asked))


def test_evaluators_share_the_cpus_of_their_trial_unless_told_otherwise() -> None:
    from rlcore_tune.trial_queue import bundles

    def needed(**evaluators: Any) -> list[dict[str, float]]:
        config = {"framework": "numpy", "stop": {"env_steps": 1}, "evaluators": evaluators}
        asked = search(config=config, trials=1)
        drawn = draw_trials(asked)
        return bundles(trial_specs(asked, drawn)[0].run(drawn[0]), 1.0)

    # Without workers everything happens in the trainer's process.
    assert needed(count=0) == [{"CPU": 1.0}]
    assert needed(count=2) == [{}, {"CPU": 0.5}, {"CPU": 0.5}]
    assert needed(count=3) == [{}, *3 * [{"CPU": 0.3333}]]
    assert needed(count=2, cpus=2.0, custom={"sim": 1.0}) == [{}, *2 * [{"CPU": 2.0, "sim": 1.0}]]
    assert needed(count=1, cpus=0.0) == [{"CPU": 1.0}]


def test_code_that_a_search_names() -> None:
    asked = search(
        env="my.module:Env",
        config={
            "model": {"custom": "nets:build"},
            "runtime": {"name": "ray", "address": "127.0.0.1:6379"},
            "stop": {"env_steps": 1},
        },
        space={"policy.helper": {"choice": ["a.b:C", "plain"]}},
    )
    assert named_code(asked) == {
        "env": "my.module:Env",
        "config.model.custom": "nets:build",
        "space.policy.helper.choice.0": "a.b:C",
    }
    assert named_code(search(env="gym:CartPole-v1")) == {}
