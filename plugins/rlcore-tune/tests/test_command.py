"""``rlcore tune`` from its YAML to the table, the pictures and run folders, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rlcore.checkpoint import load_manifest, load_tree
from rlcore.evaluate_saved import evaluate_saved
from rlcore.plotting import plot_runs
from rlcore.results import RunFolder

pytest.importorskip("ray.tune")
pytest.importorskip("rlcore_sync")
pytest.importorskip("rlcore_gym")

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.usefixtures("two_cpus")]

Tune = Any
Written = Callable[[Path], Any]

PBT = {"name": "pbt", "every_env_steps": 100, "resample_probability": 0.0, "factors": [0.5, 2.0]}


@pytest.fixture(scope="module")
def two_cpus() -> Iterator[None]:
    """A Ray with two CPUs for all searches of this file, as each would start for itself (which takes seconds)."""
    from rlcore_tune.config import SearchResources
    from rlcore_tune.session import connected

    with connected(SearchResources(cpus=2)):
        yield


def test_from_yaml_to_a_table_pictures_and_run_folders(tune: Tune, tmp_path: Path, written: Written) -> None:
    done = tune(tune.write(), "--out", "found")
    assert done.exit_code == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["statuses"] == {"finished": 2} and result["status"] == "finished"
    assert json.loads((tmp_path / "found/result.json").read_text()) == result
    # The table, the best one first.
    lines = [line.split() for line in done.stderr.splitlines()]
    head = lines.index(["trial", "status", "env_steps", "episode_return_mean", "best", "learning_rate", "notes"])
    assert lines[head + 1][0] == str(result["best_trial"])
    values = [float(line[3]) for line in lines[head + 1 : head + 3]]
    assert values == sorted(values, reverse=True)
    assert (tmp_path / "found/trials.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in (tmp_path / "found").iterdir()) == [
        "result.json",
        "search.yaml",
        "trials",
        "trials.jsonl",
        "trials.png",
    ]
    found = written(tmp_path / "found")
    assert [each["env_steps"] for each in found.of(0)] == [100, 200, 300]
    # What a trial is can be had with the commands for runs.
    run = tmp_path / "found/trials/000"
    outcome = RunFolder.open(run).result()
    assert outcome is not None and (outcome["status"], outcome["stop_reason"]) == ("stopped", "env_steps=300")
    assert evaluate_saved(run, 2).episodes == 2
    assert plot_runs([run, tmp_path / "found/trials/001"], tmp_path / "both.png").is_file()
    # Going on with a search that is over runs nothing.
    assert tune.result("found") == result
    assert written(tmp_path / "found") == found


def test_trials_take_over_weights_and_optimizer_states(tune: Tune, tmp_path: Path, written: Written) -> None:
    config = {"framework": "numpy", "evaluators": {"envs": 2, "fragment": 50}, "stop": {"env_steps": 200}}
    tune.result(tune.write(scheduler=PBT, config=config, trials=2), "--out", "found")
    found = written(tmp_path / "found")
    (copied,) = [each for each in found if each.get("copied_from") is not None]
    worse, better = copied["trial"], copied["copied_from"]
    first = {trial: found.of(trial)[0] for trial in (worse, better)}
    assert first[worse]["value"] < first[better]["value"]
    rate = first[better]["settings"]["policy.learning_rate"]
    assert copied["settings"]["policy.learning_rate"] in (pytest.approx(rate / 2), pytest.approx(min(rate * 2, 1.0)))
    # Both have a checkpoint of the second iteration, which is the same but for environments and settings.
    folders = [tmp_path / f"found/trials/{trial:03d}/checkpoints/1" for trial in (worse, better)]
    trees = [load_tree(folder)[0] for folder in folders]
    manifests = [load_manifest(folder) for folder in folders]
    assert manifests[0]["weights_sha256"] == manifests[1]["weights_sha256"]
    assert str(trees[0]["policies"]) == str(trees[1]["policies"])
    assert str(trees[0]["optimizers"]) == str(trees[1]["optimizers"])
    assert trees[0]["counters"]["env_steps"] == trees[1]["counters"]["env_steps"] == 100
    assert manifests[0]["config"]["policy"]["learning_rate"] == copied["settings"]["policy.learning_rate"]
    assert manifests[0]["config"]["seed"] != manifests[1]["config"]["seed"]
    assert (tmp_path / "found/schedule.png").read_bytes().startswith(b"\x89PNG")


def test_three_levels_a_search_its_trainers_and_their_evaluators(tune: Tune, tmp_path: Path, written: Written) -> None:
    config = {
        "framework": "numpy",
        "evaluators": {"count": 2, "envs": 1, "fragment": 50},
        "runtime": {"name": "ray"},
        "stop": {"env_steps": 200},
    }
    result = tune.result(tune.write(config=config, trials=2), "--out", "found")
    assert result["statuses"] == {"finished": 2}
    for trial in range(2):
        saved = load_manifest(tmp_path / f"found/trials/{trial:03d}/checkpoints/2")["config"]["evaluators"]
        # Both trainers have evaluators of their own, which share the CPU of the trial.
        assert (saved["count"], saved["cpus"]) == (2, 0.5)


DOOMED = """
from gymnasium.envs.classic_control import CartPoleEnv

class Doomed(CartPoleEnv):
    def __init__(self, render_mode=None, doomed=False):
        super().__init__()
        self.doomed, self.steps = doomed, 0

    def step(self, action):
        self.steps += 1
        if self.doomed and self.steps > 120:
            raise RuntimeError("the end is near")
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated, truncated or self.steps % 50 == 0, info
"""


def test_a_trial_that_fails_ends_itself_and_not_the_search(tune: Tune, tmp_path: Path, written: Written) -> None:
    (tmp_path / "doomed_search.py").write_text(DOOMED)
    space = {"env_settings.doomed": {"grid": [False, True]}}
    done = tune(tune.write(env="doomed_search:Doomed", space=space, trials=1), "--out", "found")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["statuses"] == {"finished": 1, "failed": 1}
    (failed,) = written(tmp_path / "found").of(1, "over")
    assert failed["status"] == "failed" and "the end is near" in failed["reason"]
    assert "Traceback" in (tmp_path / "found/trials/001-error.txt").read_text()
    assert "the end is near" in done.stderr
    # What it had learnt until then is there.
    assert [each["env_steps"] for each in written(tmp_path / "found").of(1)] == [100, 200]


def test_a_search_all_of_whose_trials_fail_has_failed(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "doomed_search.py").write_text(DOOMED)
    config = {
        "env_settings": {"doomed": True},
        "framework": "numpy",
        "evaluators": {"envs": 2, "fragment": 50},
        "stop": {"env_steps": 300},
    }
    done = tune(tune.write(env="doomed_search:Doomed", config=config, trials=1), "--out", "found")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["statuses"] == {"failed": 1}
    assert done.stderr.rstrip().endswith("error: every trial failed; what happened is in found/trials/*-error.txt")


def error(done: Any) -> str:
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, done.stderr
    return str(lines[0].removeprefix("error: "))


def test_what_is_wrong_is_said_before_anything_is_written(tune: Tune, tmp_path: Path) -> None:
    assert error(tune(tune.write(trails=3))) == "trails: unknown key, did you mean 'trials'?"
    assert error(tune(tune.write(), "--set", "mode=maxi")) == "mode: should be 'max' or 'min', not 'maxi'"
    wrong = tune.write(space={"policy.lerning_rate": {"uniform": [0, 1]}})
    assert error(tune(wrong)) == "space.policy.lerning_rate: unknown key, did you mean 'learning_rate'?"
    assert "did you mean 'CartPole-v1'?" in error(tune(tune.write(env="CartPoleX-v1")))
    assert error(tune("nothing.yaml")).startswith("cannot read the config nothing.yaml")
    (tmp_path / "empty").mkdir()
    assert error(tune("empty")) == "there is no search in empty, and no YAML file is named"
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    full = error(tune(tune.write(), "--out", "full"))
    assert full == "full exists and is not empty: choose another folder with --out"
    assert not (tmp_path / "searches").exists()


def test_a_trial_that_would_never_have_room_is_refused(tune: Tune) -> None:
    done = tune(tune.write(resources={"cpus": 2, "trial_cpus": 3}), "--out", "found")
    assert error(done) == "resources.trial_cpus: trial 0 needs 3 CPU, the cluster has 2"


def test_a_search_that_goes_on_takes_no_other_settings_and_has_to_be_trusted(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "found").mkdir()
    search = tune.write(env="some.module:Env")
    (tmp_path / search).rename(tmp_path / "found/search.yaml")
    assert error(tune("found", "--seed", 3)).startswith("found is a search that goes on as it was")
    assert error(tune("found")).startswith("search found names code to import: env=some.module:Env")
    assert error(tune(tune.write(), "--out", "found")).startswith("there is a search in found already")
