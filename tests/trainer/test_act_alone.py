"""What was trained with a framework acts where there is none, as it did in its evaluation, episode by episode."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Dict
from support.trained_policies import CASES, EPISODE, Scaled, Watched, trained

import rlcore
from rlcore.errors import SpaceError, UserError
from rlcore.evaluate_saved import evaluate_saved

# What is trained for all tests is trained once.
pytestmark = pytest.mark.xdist_group("act alone")

ALONE = """
import json, sys, time
import numpy as np

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "tensorflow", "keras", "rlcore_torch", "rlcore_tf", "ray"):
            raise ImportError(f"{name} is not installed here")

sys.meta_path.insert(0, Missing())
import rlcore

policies = {}
for asked in json.load(sys.stdin):
    policy = rlcore.load_policy(asked["folder"], policy=asked["policy"])
    one, side_by_side = [], []
    for episode in asked["episodes"]:
        policy.reset()
        one.append([policy.act(step) for step in episode])
    if asked["stacked"]:
        policy.reset()
        side_by_side = [policy.act(np.array(steps)) for steps in zip(*asked["episodes"])]
    print(json.dumps([one, side_by_side], default=lambda value: np.asarray(value).tolist()))
"""


def act_alone(*asked: dict[str, Any]) -> list[Any]:
    """The actions of each policy asked for, from an interpreter that no framework can be imported in."""
    asked = tuple({"policy": None, "stacked": False, **one} for one in asked)
    done = subprocess.run(
        [sys.executable, "-c", ALONE], input=json.dumps(asked), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def numbers(actions: Any) -> list[float]:
    """All numbers in what JSON holds of actions, in order."""
    if isinstance(actions, dict):
        return [number for key in sorted(actions) for number in numbers(actions[key])]
    return [number for part in actions for number in numbers(part)] if isinstance(actions, list) else [actions]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of each case the return of an evaluation, the returns and actions of its episodes, and the actions from alone."""
    pytest.importorskip("torch")
    evaluated, asked = {}, []
    for case, config in CASES.items():
        folder = trained(tmp_path_factory.mktemp("run") / "saved", **config)
        Watched.episodes.clear()
        Watched.returns.clear()
        mean = evaluate_saved(folder, 4, trust=True).episode_return_mean
        # Environments begin one episode more than they end.
        episodes = [episode for episode in Watched.episodes if len(episode) == EPISODE][:4]
        evaluated[case] = mean, Watched.returns[:4], [[step["action"] for step in episode] for episode in episodes]
        seen = [[step["obs"] for step in episode] for episode in episodes]
        asked.append({"folder": str(folder), "episodes": seen, "stacked": plain(case)})
    return {case: (*evaluated[case], *alone) for case, alone in zip(CASES, act_alone(*asked), strict=True)}


def plain(case: str) -> bool:
    return not isinstance(CASES[case]["env"].observation_space, Dict)


@pytest.mark.parametrize("case", CASES)
def test_it_acts_as_in_the_evaluation_without_a_framework(case: str, played: dict[str, Any]) -> None:
    mean, returns, done, one, side_by_side = played[case]
    assert mean == pytest.approx(np.mean(returns), abs=1e-6)
    assert len(done) == 4
    # Actions of a Box may be rounded another way where as many rows act at once as there are environments.
    np.testing.assert_allclose(numbers(one), numbers(done), rtol=0, atol=1e-5)
    if plain(case) and not isinstance(done[0][0], dict):
        np.testing.assert_allclose(np.array(side_by_side).swapaxes(0, 1), done, rtol=0, atol=1e-5)


def test_the_policies_of_a_run_act_by_name(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    changes = {
        "env": "rlcore.testing.environments:TwoAgentEnv",
        "policies": {"left": {}, "right": {"model": {"lstm": 4}}},
        "policy_of": {"left": "left", "right": "right"},
    }
    folder = trained(tmp_path / "saved", **changes)
    obs = np.random.default_rng(0).normal(size=(6, 2)).tolist()
    expected = []
    for name in ("left", "right"):
        policy = rlcore.load_policy(folder, policy=name, framework="torch")
        assert policy.policy_id == name and policy.remembers == (name == "right")
        expected.append([policy.act(one) for one in obs])
    found = act_alone(*({"folder": str(folder), "policy": name, "episodes": [obs]} for name in ("left", "right")))
    assert [one for (one,), _ in found] == expected


def test_what_tensorflow_trained_acts_without_it(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    folder = trained(tmp_path / "saved", framework="tf", env=Scaled)
    obs = np.random.default_rng(0).normal(size=(6, 3)).tolist()
    expected = rlcore.load_policy(folder, framework="tf").act(obs)
    ((one, _),) = act_alone({"folder": str(folder), "episodes": [obs]})
    np.testing.assert_allclose(one[0], expected, rtol=0, atol=1e-5)


def test_numbers_are_rounded_as_the_environments_are(tmp_path: Path) -> None:
    policy = rlcore.load_policy(trained(tmp_path / "saved", framework="numpy", algorithm="pg", env=Scaled))
    exact = [0.1, 1 / 3, 1e-9]
    np.testing.assert_array_equal(policy.act(exact), policy.act(np.array(exact, np.float32)))
    with pytest.raises(SpaceError, match="not finite"):
        policy.act([1e300, 0, 0])


def test_some_of_several_episodes_begin_anew(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    policy = rlcore.load_policy(trained(tmp_path / "saved", env=Scaled, **{"model.lstm": 8}))
    obs = np.random.default_rng(0).normal(size=(3, 3))
    first = policy.act(obs)
    second = policy.act(obs)
    assert (first != second).any(axis=1).all()
    policy.reset([1])
    third = policy.act(obs)
    assert (third != first).any(axis=1).tolist() == [True, False, True]
    np.testing.assert_array_equal(third[1], first[1])
    policy.reset(np.array([True, False, True]))
    again = policy.act(obs)
    np.testing.assert_array_equal(again[[0, 2]], first[[0, 2]])
    np.testing.assert_array_equal(again[1], second[1])
    for wrong in ([3], [-1], [[0]], [0.5], np.array([True])):
        with pytest.raises(UserError, match="rows are numbers below 3, or a flag for each of 3 episodes"):
            policy.reset(wrong)
    policy.reset([])
    policy.reset()
    np.testing.assert_array_equal(policy.act(obs), first)
