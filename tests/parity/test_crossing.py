"""What one framework trained acts and goes on in the other; both in one run; what a machine without one says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from gymnasium.spaces import Box, Discrete
from support.parity import assert_within, pair

import rlcore
from rlcore import cli
from rlcore.policy_graph import Progress
from rlcore.testing.environments import Catch, TwoAgentEnv
from rlcore.trainer import Trainer

for package in ("rlcore_torch", "rlcore_tf", "rlcore_sync"):
    pytest.importorskip(package)

OTHER = {"torch": "tf", "tf": "torch"}
each_framework = pytest.mark.parametrize("framework", OTHER)


def config(framework: str, **more: Any) -> dict[str, Any]:
    return {
        "algorithm": "ppo",
        "framework": framework,
        "env": "CartPole-v1",
        "evaluators": {"envs": 4, "fragment": 64},
        "optimizer": {"epochs": 4, "minibatch_size": 64},
        "seed": 3,
        "stop": {"iteration": 3},
        **more,
    }


@each_framework
@pytest.mark.parametrize("model", [{}, {"lstm": 8, "hidden": [16]}], ids=["dense", "lstm"])
def test_a_checkpoint_is_evaluated_in_the_other_framework(tmp_path: Path, framework: str, model: Any) -> None:
    with Trainer(config(framework, model=model, filter="mean_std"), out=tmp_path / "run") as trainer:
        trainer.train()
    found = []
    for asked in ([], ["--framework", framework], ["--framework", OTHER[framework]]):
        done = CliRunner().invoke(cli.main, ["evaluate", str(tmp_path / "run"), "--episodes", "5", *asked])
        assert done.exit_code == 0, done.output
        found.append(json.loads(done.stdout))
    assert found[0] == found[1] == found[2]


@each_framework
def test_networks_that_read_images_cross_too(tmp_path: Path, framework: str) -> None:
    settings = config(framework, env=Catch, model={"hidden": [16]}, stop={"iteration": 1})
    settings |= {"evaluators": {"envs": 2, "fragment": 16}, "optimizer": {"epochs": 1}}
    with Trainer(settings) as trainer:
        trainer.train()
        trainer.save(tmp_path / "saved")
    one, other = (rlcore.load_policy(tmp_path / "saved", framework=name) for name in OTHER)
    observations = np.random.default_rng(0).integers(0, 256, (10, *Catch().observation_space.shape)).astype(np.uint8)
    assert [one.act(obs) for obs in observations] == [other.act(obs) for obs in observations]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("pg", {}),
        ("a3c", {}),
        ("ppo", {"kl_coeff": 0.2, "model": {"hidden": [8], "lstm": 4}}),
        ("impala", {"update_rule": "rmsprop"}),
        ("appo", {"model": {"hidden": [8], "shared_value": True}}),
    ],
)
@pytest.mark.parametrize("first", [0, 1], ids=["from_torch", "from_tf"])
def test_a_state_goes_on_in_the_other_framework(name: str, settings: dict[str, Any], first: int) -> None:
    own = pair(name, Box(-1.0, 1.0, (3,), np.float32), Discrete(3), {"model": {"hidden": [8]}, **settings}, "float32")
    one, other = own.graphs[first], own.graphs[1 - first]
    for _ in range(3):
        output = one.learn(own.batch)
    one.on_progress(Progress(env_steps=30, updates=3, stats=output.stats))
    one.on_progress(Progress(env_steps=60, updates=3))
    other.set_state(one.get_state())
    state, expected = other.get_state(), one.get_state()
    assert state.keys() == expected.keys()
    assert {key: state[key] for key in state if key not in ("weights", "optimizer")} == {
        key: expected[key] for key in expected if key not in ("weights", "optimizer")
    }
    for graph in (one, other):
        graph.learn(own.batch)
    after = other.get_weights()
    for weight, array in one.get_weights().items():
        assert_within(array, after[weight], 1e-5, weight)


def test_two_frameworks_learn_in_one_run() -> None:
    two = {
        "algorithm": "ppo",
        "env": TwoAgentEnv,
        "policies": {"left": {"graph": "torch.ppo"}, "right": {"graph": "tf.ppo"}},
        "policy_of": {"left": "left", "right": "right"},
        "env_settings": {"agent_ids": ["left", "right"]},
        "policy": {"learning_rate": 0.01, "gamma": 0.5},
        "model": {"hidden": [16]},
        "optimizer": {"epochs": 4, "minibatch_size": 128},
        "evaluators": {"envs": 8, "fragment": 32},
        "seed": 1,
        "stop": {"iteration": 20},
    }
    with Trainer(two) as trainer:
        row = trainer.train()
        graphs = {name: type(graph).__module__ for name, graph in trainer.optimizers[0].learner.graphs.items()}
        assert graphs == {"left": "rlcore_torch.ppo", "right": "rlcore_tf.ppo"}
        assert {"left.policy_loss", "right.policy_loss"} <= set(row)
        # 8 steps for each of the two, one point for the right answer.
        assert trainer.evaluate(10).episode_return_mean == 16.0


MISSING = """
import sys
sys.modules["tensorflow"] = None
from rlcore.cli import main
main(sys.argv[1:])
"""


def test_where_tensorflow_is_missing_one_line_says_so_and_listing_goes_on() -> None:
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", MISSING, *arguments], capture_output=True, text=True)

    done = command("train", "ppo", "--framework", "tf", "--env", "CartPole-v1", "--stop", "iteration=1")
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: policy graph 'tf.ppo' of rlcore-tf ") and "tensorflow" in line
    listed = command("plugins", "policy_graph")
    assert listed.returncode == 0
    assert {"tf.ppo", "torch.ppo"} <= set(listed.stdout.split())
