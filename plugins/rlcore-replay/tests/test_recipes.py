"""The off-policy recipes, from a config to a run that goes on exactly and a policy that acts by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlcore
from rlcore.trainer import Trainer

pytest.importorskip("rlcore_torch")

SMALL = {"minibatch_size": 8, "learnt_per_sampled": 2.0, "learning_starts": 16, "rounds": 3, "capacity": 64}
LSTM = {"model": {"hidden": [8], "lstm": 6}, "policy": {"burn_in": 1}, "optimizer": {**SMALL, "sequence_length": 4}}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "dqn": ("dqn", "CartPole-v1", {}),
    "dqn, prioritized": ("dqn", "CartPole-v1", {"optimizer": {**SMALL, "prioritized": {}}}),
    "dqn, recurrent": ("dqn", "CartPole-v1", LSTM),
    "rainbow": ("rainbow", "CartPole-v1", {}),
    "ddpg": ("ddpg", "Pendulum-v1", {}),
    "td3": ("td3", "Pendulum-v1", {"policy": {"n_step": 2}}),
    "sac": ("sac", "Pendulum-v1", {}),
    "sac, discrete": ("sac", "CartPole-v1", {}),
}


def config(case: str, **more: Any) -> dict[str, Any]:
    name, env, settings = CASES[case]
    base = {"model": {"hidden": [8]}, "optimizer": SMALL, "evaluators": {"envs": 2, "fragment": 4}}
    return {"algorithm": name, "framework": "torch", "env": env, "seed": 3, **base, **settings, **more}


@pytest.mark.parametrize("case", CASES)
def test_B079_B088_six_iterations_equal_three_saved_and_three_more(case: str, tmp_path: Path) -> None:
    with Trainer(config(case)) as whole:
        for _ in range(3):
            whole.step()
        whole.save(tmp_path / "saved")
        for _ in range(3):
            row = whole.step()
        assert row["updates"] > 0 and row["skipped_updates"] == 0
        expected = whole.weights_sha256()
    with Trainer.restore(tmp_path / "saved") as rest:
        for _ in range(3):
            rest.step()
        assert rest.weights_sha256() == expected


@pytest.mark.parametrize("case", CASES)
def test_a_policy_acts_from_its_checkpoint_without_its_framework(case: str, tmp_path: Path) -> None:
    with Trainer(config(case)) as trainer:
        trainer.step()
        trainer.save(tmp_path / "saved")
    policy = rlcore.load_policy(tmp_path / "saved")
    obs = np.ones(4 if CASES[case][1] == "CartPole-v1" else 3, np.float32)
    expected = np.asarray(policy.act(obs))
    program = (
        "import sys, numpy as np, rlcore; policy = rlcore.load_policy(sys.argv[1]); "
        f"print(np.asarray(policy.act(np.ones({obs.shape}, np.float32))).tolist()); assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "saved")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(expected.tolist())


def test_B073_epsilon_goes_on_where_it_was(tmp_path: Path) -> None:
    schedule = {"policy": {"epsilon": [[0, 1.0], [96, 0.05]]}}
    with Trainer(config("dqn", **schedule)) as trainer:
        trainer.step()
        trainer.step()
        trainer.save(tmp_path / "saved")
    with Trainer.restore(tmp_path / "saved") as rest:
        # 48 of 96 steps: half of the way.
        assert rest.evaluators.local.call("default", "epsilon") == pytest.approx(0.525)


def evaluated(algorithm: str, env: str, steps: int, seed: int, **settings: Any) -> float:
    run = {"algorithm": algorithm, "framework": "torch", "env": env, "seed": seed, "stop": {"env_steps": steps}}
    with Trainer({**run, **settings}) as trainer:
        trainer.train()
        return trainer.evaluate(100).episode_return_mean


@pytest.mark.learning
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_dqn_holds_cartpole(seed: int) -> None:
    assert evaluated("dqn", "CartPole-v1", 100_000, seed) >= 475


@pytest.mark.learning
def test_rainbow_learns_cartpole() -> None:
    assert evaluated("rainbow", "CartPole-v1", 60_000, 0) >= 400


@pytest.mark.learning
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("algorithm", "steps"), [("sac", 15_000), ("td3", 25_000), ("ddpg", 25_000)])
def test_they_learn_pendulum(algorithm: str, steps: int, seed: int) -> None:
    assert evaluated(algorithm, "Pendulum-v1", steps, seed) >= -180


@pytest.mark.learning
def test_sac_learns_mountain_car() -> None:
    assert evaluated("sac", "MountainCarContinuous-v0", 50_000, 0) >= 90


MEMORY: dict[str, Any] = {
    "evaluators": {"envs": 8, "fragment": 10},
    "policy": {"epsilon": [[0, 1.0], [10_000, 0.05]], "learning_rate": 2e-3},
}
SEQUENCES = {"sequence_length": 10, "minibatch_size": 320, "learnt_per_sampled": 16, "rounds": 10, "capacity": 2000}


@pytest.mark.learning
def test_a_memory_is_learnt_only_with_one() -> None:
    env = "rlcore.testing.environments:RememberFirst"
    recurrent = {"model": {"hidden": [32], "lstm": 32}, "optimizer": SEQUENCES}
    plain = {"model": {"hidden": [32]}, "optimizer": {"minibatch_size": 320, "learnt_per_sampled": 16, "rounds": 10}}
    assert evaluated("dqn", env, 20_000, 0, **MEMORY, **recurrent) == 1.0
    assert evaluated("dqn", env, 20_000, 0, **MEMORY, **plain) < 0.5


GOALS: dict[str, Any] = {
    "model": {"hidden": [128]},
    "policy": {"epsilon": [[0, 1.0], [20_000, 0.02]], "learning_rate": 1e-3, "gamma": 0.98},
    "evaluators": {"envs": 8, "fragment": 4},
}
REPLAY = {"minibatch_size": 128, "learnt_per_sampled": 32, "rounds": 32, "capacity": 200_000}
REACHED = "rlcore.testing.environments.goals:bits"


@pytest.mark.learning
def test_goals_are_reached_only_with_hindsight() -> None:
    env = "rlcore.testing.environments:BitFlip"
    hindsight = {"reward": f"{REACHED}_reward", "terminated": f"{REACHED}_reached"}
    # Of 12 bits half are wrong at first, so that the best mean return is -5, and -12 where no goal is reached.
    assert evaluated("dqn", env, 40_000, 0, **GOALS, optimizer={**REPLAY, "hindsight": hindsight}) > -5.5
    assert evaluated("dqn", env, 40_000, 0, **GOALS, optimizer=REPLAY) < -11.0
