"""A run that was saved and goes on is the run that never stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.runs import linear, two_agents, without_times

import rlcore
from rlcore.checkpoint import load_tree
from rlcore.errors import CheckpointError, ConfigError
from rlcore.results import RunFolder
from rlcore.trainer import Trainer

FILTERED = {"filter": "mean_std", "evaluation": {"every_env_steps": 100, "episodes": 2}}


def rows_of(config: dict[str, Any], iterations: int) -> tuple[list[dict[str, Any]], str]:
    with Trainer(config) as trainer:
        rows = [without_times(trainer.step()) for _ in range(iterations)]
        return rows, trainer.weights_sha256()


@pytest.mark.parametrize(
    "config",
    [
        linear(FILTERED),
        linear({"evaluators": {"envs": 2, "fragment": None, "episodes": 3}}),
        linear({"evaluators": {"count": 2}, "runtime": "inline", **FILTERED}),
        linear({"optimizer": {"name": "allreduce", "epochs": 2, "minibatch_size": 20}}),
        linear({"optimizer.minibatch_size": 20, "env": "Pendulum-v1"}),
        two_agents(),
        two_agents({"evaluators": {"count": 2}, "runtime": "inline"}),
    ],
    ids=["filter", "episodes", "two evaluators", "allreduce", "continuous", "two policies", "two and two"],
)
def test_B088_six_iterations_equal_three_saved_and_three_more(config: dict[str, Any], tmp_path: Path) -> None:
    rows, sha256 = rows_of(config, 6)
    with Trainer(config) as trainer:
        for _ in range(3):
            trainer.step()
        trainer.save(tmp_path / "three")
    with Trainer.restore(tmp_path / "three", trust=True) as restored:
        assert not restored.restarts
        resumed = [without_times(restored.step()) for _ in range(3)]
        assert resumed == rows[3:]
        assert restored.weights_sha256() == sha256


@pytest.mark.parametrize("recipe", ["pg", "a2c", "ppo"])
def test_B076_the_first_update_after_a_restore_is_the_one_that_would_have_been(recipe: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    config = linear({"algorithm": recipe, "framework": "torch", "policy.learning_rate": 0.01, **FILTERED})
    with Trainer(config) as trainer:
        for _ in range(3):
            trainer.step()
        trainer.save(tmp_path / "three")
        expected = without_times(trainer.step()), trainer.weights_sha256()
    with Trainer.restore(tmp_path / "three") as restored:
        assert (without_times(restored.step()), restored.weights_sha256()) == expected


def test_B066_the_same_seed_gives_the_same_weights_and_another_one_others() -> None:
    assert rows_of(linear(FILTERED), 3) == rows_of(linear(FILTERED), 3)
    assert rows_of(linear(), 2)[1] != rows_of(linear({"seed": 6}), 2)[1]


def test_B150_no_evaluator_and_one_give_the_same_run() -> None:
    one = linear({"evaluators": {"count": 1}, "runtime": "inline", **FILTERED})
    assert rows_of(linear(FILTERED), 3) == rows_of(one, 3)


def test_B072_counts_go_on_after_a_restore(tmp_path: Path) -> None:
    config = linear({"evaluators": {"envs": 5, "fragment": 200}, "stop": {"env_steps": 5000, "iteration": 99}})
    with Trainer(config, out=tmp_path / "run") as trainer:
        assert trainer.train()["env_steps"] == 5000
    with Trainer.restore(tmp_path / "run", overrides={"stop.env_steps": 6000}) as restored:
        assert restored.train()["env_steps"] == 6000
    assert [row["env_steps"] for row in RunFolder.open(tmp_path / "run").rows()] == [1000 * i for i in range(1, 7)]


SCRIPT = """
import os, signal, sys
from support.runs import linear
from rlcore.trainer import Trainer

class Kill:
    def iteration(self, row):
        if row["iteration"] == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)

config = linear({"filter": "mean_std", "stop.iteration": 6, "checkpoints.every": 3})
print(Trainer(config, out=sys.argv[1], hooks=[Kill()]).train()["weights_sha256"])
"""


def run_script(out: Path, kill_at: int, hash_seed: int) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": path}
    command = [sys.executable, "-c", SCRIPT, str(out), str(kill_at)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)


def test_B088_a_killed_run_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    whole = run_script(tmp_path / "whole", 0, hash_seed=1)
    assert whole.returncode == 0, whole.stderr
    killed = run_script(tmp_path / "killed", 4, hash_seed=2)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    run = RunFolder.open(tmp_path / "killed")
    # The last checkpoint is of the third iteration: the fourth is done again.
    assert [row["iteration"] for row in run.rows()] == [1, 2, 3, 4] and run.result() is None
    assert run.checkpoints().iterations() == [3]
    with Trainer.restore(tmp_path / "killed") as restored:
        result = restored.train()
    assert result["weights_sha256"] == whole.stdout.strip()
    rows, whole_rows = run.rows(), RunFolder.open(tmp_path / "whole").rows()
    assert [without_times(row) for row in rows] == [without_times(row) for row in whole_rows]
    assert run.result() == result and result["status"] == "stopped"


def test_restoring_alone_changes_nothing_in_the_folder(tmp_path: Path) -> None:
    with Trainer(linear(), out=tmp_path / "run") as trainer:
        trainer.train()
    run = RunFolder.open(tmp_path / "run")
    run.append({"iteration": 4})
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
    with Trainer.restore(tmp_path / "run") as restored:
        restored.evaluate(1)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")} == before


def test_a_resumed_run_drops_what_came_after_its_checkpoint(tmp_path: Path) -> None:
    with Trainer(linear(), out=tmp_path / "run") as trainer:
        trainer.train()
    run = RunFolder.open(tmp_path / "run")
    run.append({"iteration": 4})
    with Trainer.restore(tmp_path / "run", overrides={"stop.iteration": 5}) as restored:
        restored.train()
    assert [row["iteration"] for row in run.rows()] == [1, 2, 3, 4, 5]
    assert "iteration: 5" in run.config_yaml


def test_resuming_a_run_that_is_over_ends_at_once_with_the_same_result(tmp_path: Path) -> None:
    with Trainer(linear(), out=tmp_path / "run") as trainer:
        result = trainer.train()
    with Trainer.restore(tmp_path / "run") as restored:
        assert restored.train() == result


def test_a_lone_checkpoint_goes_on_without_a_folder(tmp_path: Path) -> None:
    with Trainer(linear(), out=tmp_path / "run") as trainer:
        trainer.train()
    folder = tmp_path / "run" / "checkpoints" / "3"
    with Trainer.restore(folder, overrides={"stop.iteration": 4}) as restored:
        assert restored.train()["iteration"] == 4
    assert len(RunFolder.open(tmp_path / "run").rows()) == 3


def test_B082_another_number_of_environments_loads_and_begins_new_episodes(tmp_path: Path) -> None:
    with Trainer(linear(FILTERED)) as trainer:
        for _ in range(3):
            trainer.step()
        trainer.save(tmp_path / "saved")
        sha256 = trainer.weights_sha256()
    with Trainer.restore(tmp_path / "saved", overrides={"evaluators.envs": 1}) as restored:
        assert restored.weights_sha256() == sha256
        row = restored.step()
        assert (row["iteration"], row["env_steps"]) == (4, 3 * 75 + 25)


def test_what_makes_a_run_that_run_cannot_change(tmp_path: Path) -> None:
    with Trainer(linear()) as trainer:
        trainer.save(tmp_path / "saved")
    with pytest.raises(ConfigError, match=r"^policy, seed: cannot change in a run that goes on"):
        Trainer.restore(tmp_path / "saved", overrides={"policy.learning_rate": 1.0, "seed": 2})
    with pytest.raises(ConfigError, match=r"^evaluators\.env: unknown key, did you mean 'envs'\?$"):
        Trainer.restore(tmp_path / "saved", overrides={"evaluators.env": 2})


def test_a_python_object_of_a_script_has_to_be_given_anew(tmp_path: Path) -> None:
    import gymnasium

    def make(**settings: Any) -> Any:
        return gymnasium.make("CartPole-v1")

    with Trainer(linear({"env": make})) as trainer:
        trainer.step()
        trainer.save(tmp_path / "saved")
        expected = trainer.step()
    with pytest.raises(CheckpointError, match="env was given as a Python object"):
        Trainer.restore(tmp_path / "saved")
    with Trainer.restore(tmp_path / "saved", overrides={"env": make}) as restored:
        assert restored.step()["env_steps"] == expected["env_steps"]


@pytest.mark.parametrize(
    ("place", "value", "named"),
    [
        (("config", "env"), "os:system", "env=os:system"),
        (("config", "env"), "gym:os:Some-v0", "env=gym:os:Some-v0"),
        (("config", "policy_of"), "os:system", "policy_of=os:system"),
        (("config", "env_settings", "wrappers"), ["os:system"], "env_settings.wrappers.0=os:system"),
        (("config", "runtime"), "os:system", "runtime=os:system"),
        (("policies", "default", "graph"), "os:system", "policies.default.graph=os:system"),
        (("policies", "default", "optimizer", "name"), "os:system", "policies.default.optimizer.name=os:system"),
        (("policies", "default", "model", "custom"), "os:system", "policies.default.model.custom=os:system"),
    ],
)
def test_names_of_code_in_a_checkpoint_are_not_followed(
    place: tuple[str, ...], value: Any, named: str, tmp_path: Path
) -> None:
    with Trainer(linear()) as trainer:
        trainer.save(tmp_path / "saved")
    manifest = json.loads((tmp_path / "saved" / "manifest.json").read_text())
    node = manifest
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = value
    (tmp_path / "saved" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError) as caught:
        Trainer.restore(tmp_path / "saved")
    assert f"names code to import: {named}; nothing was loaded" in str(caught.value)


@pytest.mark.parametrize("optimizer", ["multi_gpu", "allreduce"])
def test_a_new_run_starts_from_the_weights_and_optimizer_state_of_another(optimizer: str, tmp_path: Path) -> None:
    config = linear({"filter": "mean_std", "optimizer.name": optimizer})
    with Trainer(config, out=tmp_path / "first") as trainer:
        sha256 = trainer.train()["weights_sha256"]
        seen = trainer.evaluators.local.filters["default"][""].get_statistics()["count"]
    with Trainer({**config, "seed": 9}, start_from=tmp_path / "first") as second:
        assert second.weights_sha256() == sha256
        assert second.counters.iteration == 0 and second.row == {}
        assert second.evaluators.local.filters["default"][""].get_statistics()["count"] == seen > 0
        assert second.optimizers[0].graph_states()["default"]["optimizer"]["step"] == 3
        assert second.step()["iteration"] == 1


def test_a_checkpoint_holds_the_state_of_each_trained_graph_and_the_weights_of_others(tmp_path: Path) -> None:
    config = two_agents()
    config["policies"]["right"] = {"trained": False}
    with Trainer(config) as trainer:
        trainer.step()
        tree, _ = load_tree(trainer.save(tmp_path / "saved"))
        weights = trainer.weights()
    left, right = tree["policies"]["left"], tree["policies"]["right"]
    assert set(left) == {"graph", "filters"} and set(right) == {"weights", "filters"}
    assert left["graph"]["optimizer"]["step"] > 0
    for saved, policy_id in ((left["graph"]["weights"], "left"), (right["weights"], "right")):
        assert {name: array.tolist() for name, array in saved.items()} == {
            name: array.tolist() for name, array in weights[policy_id].items()
        }
    assert set(rlcore.load_policy(tmp_path / "saved", policy="right").act([[0.0, 0.0]])) <= {0, 1}


def test_a_new_run_starts_from_the_weights_alone_where_its_framework_is_another(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("tensorflow")
    with Trainer(linear({"framework": "torch"})) as trainer:
        trainer.step()
        trainer.save(tmp_path / "saved")
        sha256 = trainer.weights_sha256()
    with Trainer(linear({"framework": "tf"}), start_from=tmp_path / "saved") as second:
        assert second.weights_sha256() == sha256
        second.step()


def test_starting_from_another_filter_is_refused(tmp_path: Path) -> None:
    with Trainer(linear()) as trainer:
        trainer.save(tmp_path / "saved")
    with pytest.raises(ConfigError, match=r"^filter: policy 'default' of .* was trained with 'none', not 'mean_std'$"):
        Trainer(linear({"filter": "mean_std"}), start_from=tmp_path / "saved")
