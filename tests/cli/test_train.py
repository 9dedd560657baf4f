"""``rlcore train``: what it prints where, what it leaves behind, and what it refuses before it leaves anything."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcore.cli import train
from rlcore.config import parse_config
from rlcore.results import RunFolder

pytest.importorskip("rlcore_sync")
pytest.importorskip("rlcore_gym")

Rlcore = Any


def test_a_run_from_end_to_end(rlcore: Rlcore, small: tuple[str, ...], tmp_path: Path) -> None:
    done = rlcore("train", *small, "--stop", "iteration=3", "--out", "run", "--checkpoint-every", "2")
    assert done.exit_code == 0
    result = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert (result["run_folder"], result["status"], result["stop_reason"]) == ("run", "stopped", "iteration=3")
    assert re.fullmatch("[0-9a-f]{64}", result["weights_sha256"])
    assert (result["iteration"], result["env_steps"]) == (3, 240)
    run = RunFolder.open(tmp_path / "run")
    assert run.result() == {key: value for key, value in result.items() if key != "run_folder"}
    assert [row["iteration"] for row in run.rows()] == [1, 2, 3]
    assert run.checkpoints().iterations() == [2, 3]
    config = yaml.safe_load(run.config_yaml)
    assert (config["algorithm"], config["framework"], config["seed"]) == ("pg", "numpy", 1)
    assert config["stop"] == {"iteration": 3}


def test_piped_there_is_one_plain_line_an_iteration(rlcore: Rlcore, small: tuple[str, ...]) -> None:
    done = rlcore("train", *small, "--stop", "iteration=3", "--out", "run")
    lines = [line for line in done.stderr.splitlines() if line.startswith("iteration ")]
    assert len(lines) == 3
    for number, line in enumerate(lines, start=1):
        assert re.fullmatch(
            rf"iteration {number}  env_steps {80 * number}  return (-|[\d.]+)  [\d,]+ steps/s  \d+ s left", line
        )
    assert "\x1b" not in done.stderr


def test_B156_no_finished_episode_is_null(rlcore: Rlcore, small: tuple[str, ...], tmp_path: Path) -> None:
    short = ("--set", "evaluators.fragment=2", "--stop", "iteration=1", "--stop", "episode_return_mean=-1000")
    done = rlcore("train", *small, *short, "--out", "run")
    result = json.loads(done.stdout)
    assert (result["episode_return_mean"], result["episodes_new"], result["stop_reason"]) == (None, 0, "iteration=1")
    assert "iteration 1  env_steps 4  return -  " in done.stderr


def test_tensorboard_events_where_it_is_installed(rlcore: Rlcore, small: tuple[str, ...], tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    rlcore.result("train", *small, "--stop", "iteration=1", "--out", "run")
    assert len(list((tmp_path / "run").glob("events.out.tfevents.*"))) == 1


def test_it_says_which_settings_it_used(rlcore: Rlcore, small: tuple[str, ...]) -> None:
    said = rlcore("train", *small, "--stop", "iteration=1", "--out", "run").stderr
    assert said.count("recipe pg: ") == 1
    assert said.count("command line: ") == 1
    assert re.search("command line: .*framework='numpy'", said)
    assert "run folder: run\n" in said


def test_without_out_it_goes_under_runs(rlcore: Rlcore, small: tuple[str, ...], tmp_path: Path) -> None:
    result = rlcore.result("train", *small, "--stop", "iteration=1")
    assert re.fullmatch(r"runs/pg-CartPole-v1-\d{8}-\d{6}", result["run_folder"])
    assert RunFolder.open(tmp_path / result["run_folder"]).result() is not None


def test_folders_of_the_same_second_are_numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        @staticmethod
        def now() -> datetime:
            return datetime(2031, 5, 17, 8, 9, 10)

    monkeypatch.setattr(train, "datetime", Clock)
    config = parse_config({"algorithm": "ppo", "env": "module.of:Some/Env"})
    for expected in ("", "-2", "-3"):
        folder = train.default_folder(config, tmp_path)
        assert folder.name == f"ppo-module.of-Some-Env-20310517-080910{expected}"
        folder.mkdir()


def test_yaml_is_overruled_by_options(rlcore: Rlcore, tmp_path: Path) -> None:
    text = """
        algorithm: pg
        framework: numpy
        env: CartPole-v1
        evaluators: {envs: 2, fragment: 40}
        policy: {learning_rate: 3e-3}
        seed: 5
        stop: {iteration: 9, env_steps: 100000}
    """
    (tmp_path / "config.yaml").write_text(text)
    result = rlcore.result(
        *("train", "config.yaml", "--seed", "7", "--set", "policy.gamma=0.5", "--set", "seed=6"),
        *("--stop", "iteration=2", "--out", "run"),
    )
    assert result["iteration"] == 2
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert (config["seed"], config["policy"]["learning_rate"], config["policy"]["gamma"]) == (7, 0.003, 0.5)
    assert config["stop"] == {"iteration": 2, "env_steps": 100000}


def test_evaluators_in_the_process(rlcore: Rlcore, small: tuple[str, ...], tmp_path: Path) -> None:
    result = rlcore.result(
        "train", *small, "--evaluators", "3", "--runtime", "inline", "--stop", "iteration=1", "--out", "run"
    )
    assert result["env_steps"] == 3 * 2 * 40
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert (config["evaluators"]["count"], config["runtime"]) == (3, "inline")


def test_another_optimizer_is_one_word(rlcore: Rlcore, small: tuple[str, ...], tmp_path: Path) -> None:
    for name in ("multi_gpu", "allreduce"):
        rlcore.result("train", *small, "--optimizer", name, "--stop", "iteration=1", "--out", name)
        assert yaml.safe_load((tmp_path / name / "config.yaml").read_text())["optimizer"]["name"] == name


def test_the_same_seed_gives_the_same_weights_and_another_does_not(rlcore: Rlcore, small: tuple[str, ...]) -> None:
    hashes = [
        rlcore.result("train", *small, "--seed", seed, "--stop", "iteration=2", "--out", out)["weights_sha256"]
        for out, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    assert hashes[0] == hashes[1]
    assert hashes[0] != hashes[2]


def test_starting_from_what_another_run_has_learnt(rlcore: Rlcore, small: tuple[str, ...]) -> None:
    first = rlcore.result("train", *small, "--stop", "iteration=2", "--out", "first")
    second = rlcore.result(
        *("train", *small, "--from", "first", "--set", "policy.learning_rate=0.0"),
        *("--stop", "iteration=1", "--out", "second"),
    )
    assert second["iteration"] == 1  # a new run, which counts from the beginning
    assert second["weights_sha256"] == first["weights_sha256"]
    assert rlcore.error("train", *small, "--from", "none", "--out", "third") == "there is no checkpoint at none"


# -- what is refused, with nothing half written


@pytest.fixture
def refused(rlcore: Rlcore, tmp_path: Path) -> Any:
    """The message of a ``train`` that is refused; nothing new may be in the folder afterwards."""

    def message(*arguments: object) -> str:
        before = sorted(tmp_path.rglob("*"))
        said: str = rlcore.error("train", *arguments)
        assert sorted(tmp_path.rglob("*")) == before
        assert len(said.splitlines()) <= 4
        return said

    return message


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pgg", "--env", "CartPole-v1"], "unknown algorithm 'pgg'; did you mean 'pg'?"),
        (["pg", "--env", "CartPole-v1", "--framework", "jax"], "unknown policy graph 'jax.pg'"),
        (
            ["pg", "--env", "CartPole-v1", "--framework", "numpy", "--optimizer", "multi_gpus"],
            "unknown optimizer 'multi_gpus'; did you mean",
        ),
        (["pg", "--env", "CartPole-v1", "--runtime", "inlin"], "unknown runtime 'inlin'; did you mean 'inline'?"),
        (["pg", "--env", "CartPol-v1"], "did you mean 'CartPole-v1'?"),
        (["pg", "--env", "gymm:CartPole-v1"], "'gymm' is no installed provider and no module; did you mean 'gym'?"),
        (["pg"], "env: missing"),
        (
            ["pg", "--env", "CartPole-v1", "--framework", "numpy", "--set", "policy.learnin_rate=1e-3"],
            "policy.learnin_rate: unknown key, did you mean 'learning_rate'?",
        ),
        (["pg", "--env", "CartPole-v1", "--set", "sede=3"], "sede: unknown key, did you mean 'seed'?"),
        (["pg", "--env", "CartPole-v1", "--set", "seed=three"], "seed: should be a valid integer, not 'three'"),
        (["pg", "--env", "CartPole-v1", "--set", "seed"], "--set seed: expected key=value"),
        (["pg", "--env", "CartPole-v1", "--set", "policy={"], "--set policy={: "),
        (["pg", "--env", "CartPole-v1", "--stop", "env_stps=5"], "stop.env_stps: unknown row key, did you mean"),
        (["pg", "--env", "CartPole-v1", "--stop", "env_steps=many"], "stop.env_steps: should be a valid number"),
        (["pg", "--env", "CartPole-v1", "--seed", "-1"], "Invalid value for '--seed'"),
        (["pg", "--env", "CartPole-v1", "--evaluators", "two"], "Invalid value for '--evaluators'"),
        (["none.yaml"], "cannot read the config none.yaml: "),
    ],
)
def test_what_is_refused(refused: Any, arguments: list[str], said: str) -> None:
    assert said in refused(*arguments, "--out", "run")
    assert said in refused(*arguments)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("algorithm: [pg", "config.yaml is not YAML: line 1"),
        ("- pg\n", "config.yaml: expected 'key: value' lines"),
        ("algorithm: pg\nalgorithm: ppo\n", "the key 'algorithm' stands twice"),
        ("algorithm: pg\nenv: CartPole-v1\nseed: [1]\n", "seed: should be a valid integer, not [1]"),
        ("env: CartPole-v1\n", "algorithm: missing"),
    ],
)
def test_what_is_refused_in_yaml(refused: Any, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    assert said in refused("config.yaml")


def test_a_run_that_exists_is_not_touched(rlcore: Rlcore, refused: Any, small: tuple[str, ...], tmp_path: Path) -> None:
    rlcore.result("train", *small, "--stop", "iteration=1", "--out", "run")
    said = refused(*small, "--stop", "iteration=1", "--out", "run")
    assert said == (
        "there is a run in run already: choose another folder with --out, or go on with 'rlcore resume run'"
    )


def test_an_environment_that_fails_later_leaves_a_checkpoint(
    rlcore: Rlcore, small: tuple[str, ...], tmp_path: Path
) -> None:
    env = "rlcore.testing.environments.faulty:RaisingEnv"
    done = rlcore(
        *("train", *small, "--env", env, "--set", "env_settings.step=3", "--set", "evaluators.fragment=1"),
        *("--stop", "iteration=9", "--out", "run"),
    )
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"error: {env}, slot 0, step 3: step() raised ValueError: boom\n" in done.stderr
    assert "faulty.py" in done.stderr  # the environment's own trace
    assert "Traceback" not in done.stderr
    run = RunFolder.open(tmp_path / "run")
    result = run.result()
    assert result is not None
    assert (result["status"], result["iteration"]) == ("failed", 2)
    assert run.checkpoints().iterations() == [2]


def test_debug_shows_where_it_came_from(rlcore: Rlcore) -> None:
    done = rlcore("train", "pgg", "--env", "CartPole-v1", "--debug")
    assert done.exit_code == 2
    assert "Traceback (most recent call last)" in done.stderr
    assert "UnknownPluginError" in done.stderr


def test_B100_what_is_assumed_of_images_is_said_once(rlcore: Rlcore) -> None:
    settings = ("env_settings.observed=image", "env_settings.acted=discrete", "evaluators.fragment=5")
    options = [word for setting in settings for word in ("--set", setting)]
    done = rlcore(
        *("train", "pg", "--framework", "numpy", "--env", "support.spaces:mirror", "--stop", "iteration=1"), *options
    )
    assert done.exit_code == 0, done.stderr
    assert done.stderr.count("is taken for an image and divided by 255; model.scale.obs: false keeps it") == 1
