"""What a search is told, and what is said of it where it is wrong."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from rlcore.errors import ConfigError
from rlcore_tune.config import parse_search, read_search
from rlcore_tune.schedulers import ASHA, PBT, HyperBand, NoScheduler
from rlcore_tune.spaces import Grid, LogUniform

STEPS = {"min_env_steps": 2, "max_env_steps": 18}
RATE = {"policy.learning_rate": {"log_uniform": [1e-4, 1e-1]}}
SEARCH: dict[str, Any] = {"algorithm": "pg", "env": "CartPole-v1", "space": RATE, "config": {"stop": {"env_steps": 9}}}


def test_a_search_from_yaml(tmp_path: Any) -> None:
    path = tmp_path / "search.yaml"
    path.write_text(
        "algorithm: ppo\n"
        "env: Pendulum-v1\n"
        "config: {evaluators: {count: 2}}\n"
        "space:\n"
        "  policy.learning_rate: {log_uniform: [1e-5, 1e-2]}\n"
        "  policy.gamma: {grid: [0.9, 0.99]}\n"
        "scheduler: {name: asha, min_env_steps: 1e4, max_env_steps: 9e4}\n"
        "trials: 4\n"
        "mode: max\n"
        "resources: {trial_cpus: 0.5}\n"
        "seed: 3\n"
    )
    search = read_search(path)
    assert search.space["policy.learning_rate"] == LogUniform(log_uniform=(1e-5, 1e-2))
    assert search.space["policy.gamma"] == Grid(grid=[0.9, 0.99])
    assert search.scheduler == ASHA(min_env_steps=10_000, max_env_steps=90_000)
    assert (search.trials, search.resources.trial_cpus, search.seed) == (4, 0.5, 3)
    # What is written into the folder reads as the same search.
    assert parse_search(yaml.safe_load(yaml.safe_dump(search.to_tree()))) == search


@pytest.mark.parametrize(
    ("scheduler", "expected", "report", "last"),
    [
        ("none", NoScheduler(), 10_000, None),
        ({"name": "none", "every_env_steps": 5}, NoScheduler(every_env_steps=5), 5, None),
        ({"name": "hyperband", **STEPS}, HyperBand(min_env_steps=2, max_env_steps=18), 2, 18),
        ({"name": "pbt", "every_env_steps": 7}, PBT(every_env_steps=7), 7, None),
    ],
)
def test_schedulers_by_name(scheduler: Any, expected: Any, report: int, last: int | None) -> None:
    search = parse_search({**SEARCH, "scheduler": scheduler, "trials": 2})
    assert search.scheduler == expected
    assert (search.scheduler.report_env_steps, search.scheduler.last_env_steps) == (report, last)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"trails": 3}, "trails: unknown key, did you mean 'trials'?"),
        ({"mode": "maxi"}, "mode: should be 'max' or 'min', not 'maxi'"),
        ({"trials": 0}, "trials: should be greater than or equal to 1, not 0"),
        ({"space": {}}, "space: should map dotted keys to what they are drawn from, not {}"),
        ({"space": {"seed": {"grid": [1]}}}, "space.seed: no setting that a search can draw"),
        ({"space": {"a..b": {"grid": [1]}}}, "a..b: a dotted key has a name between any two dots"),
        ({"scheduler": "ash"}, "scheduler.name: unknown scheduler 'ash', did you mean 'asha'?"),
        ({"scheduler": {"min_env_steps": 1}}, "scheduler.name: missing; there are: none, asha, hyperband, pbt"),
        ({"scheduler": 3}, "scheduler: should be keys and values, not 3"),
        (
            {"scheduler": {"name": "pbt", "every_env_steps": 5, "quantil": 0.5}, "trials": 2},
            "scheduler.quantil: unknown key, did you mean 'quantile'?",
        ),
        (
            {"scheduler": {"name": "asha", "min_env_steps": 3, "max_env_steps": 4}},
            "scheduler: max_env_steps should be at least reduction_factor times min_env_steps",
        ),
        (
            {"scheduler": {"name": "pbt", "every_env_steps": 5}},
            "settings: trials: with pbt trials take over from others, which takes two at least",
        ),
        ({"config": {}}, "settings: config.stop: missing; a search needs an end, such as {env_steps: 100000}"),
        ({"config": {"env": "x", "stop": {"env_steps": 1}}}, "config.env: stands at 'env'"),
        (
            {"config": {"evaluators": {"cont": 2}, "stop": {"env_steps": 1}}},
            "config.evaluators.cont: unknown key, did you mean 'count'?",
        ),
        ({"resources": {"trial_cpu": 1}}, "resources.trial_cpu: unknown key, did you mean 'trial_cpus'?"),
        (
            {"resources": {"cpus": 1, "address": "auto"}},
            "resources: 'cpus' is for a Ray that is started here, and 'address' names one that runs already",
        ),
        ({"metric": "episode_return"}, "metric: unknown row key, did you mean 'episode_return_mean'?"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_search({**SEARCH, **change})
    assert str(error.value).removeprefix("settings: ") == said.removeprefix("settings: ")
