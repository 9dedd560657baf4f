"""A run from its start to each of its ends."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.runs import linear, two_agents, without_times

import rlcore
from rlcore.errors import ConfigError, EnvError, PluginError, RunFolderError, UserError
from rlcore.hooks import hookimpl
from rlcore.progress import ROW_KEYS
from rlcore.resolve import resolve
from rlcore.results import RunFolder
from rlcore.testing.environments import CountEnv
from rlcore.trainer import Trainer
from rlcore.weights_digest import weights_sha256


class Log:
    """Notes the events of a run."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def run_start(self, out: Path | None) -> None:
        self.events.append(("run_start", out))

    def iteration(self, row: Any) -> None:
        self.events.append(("iteration", row["iteration"]))

    def evaluation(self, result: Any) -> None:
        self.events.append(("evaluation", result["env_steps"], result["episodes"]))

    def checkpoint(self, path: Path, iteration: int, best: bool) -> None:
        self.events.append(("checkpoint", path.name, iteration, best))

    def run_end(self, status: str, result: Any) -> None:
        self.events.append(("run_end", status, result["iteration"]))

    @hookimpl
    def episode_end(self, worker: int, episode: Any) -> None:
        self.events.append(("episode_end", worker))


def test_a_run_writes_its_folder(tmp_path: Path) -> None:
    with Trainer(linear({"evaluation.every_env_steps": 150, "checkpoints.every": 2}), out=tmp_path / "run") as trainer:
        result = trainer.train()
        sha256 = trainer.weights_sha256()
    run = RunFolder.open(tmp_path / "run")
    rows = run.rows()
    assert [row["iteration"] for row in rows] == [1, 2, 3]
    assert all(tuple(row)[: len(ROW_KEYS)] == ROW_KEYS for row in rows)
    assert all(row["wall_s"] > 0 and row["env_steps_per_s"] > 0 for row in rows)
    assert (
        run.result()
        == result
        == {
            **rows[-1],
            "status": "stopped",
            "stop_reason": "iteration=3",
            "weights_sha256": sha256,
        }
    )
    assert run.checkpoints().iterations() == [2, 3] and run.checkpoints().best() is not None
    assert resolve(rlcore.config_text.parse_yaml(run.config_yaml)).config == trainer.config


def test_the_events_of_a_run_come_in_order(tmp_path: Path) -> None:
    log = Log()
    config = linear(
        {
            "env": "rlcore.testing.environments:Count",
            "evaluators": {"envs": 1, "fragment": 3},
            "evaluation": {"every_env_steps": 6, "episodes": 1},
            "stop.iteration": 2,
        }
    )
    with Trainer(config, hooks=[log], out=tmp_path / "run") as trainer:
        trainer.train()
    assert log.events == [
        ("run_start", tmp_path / "run"),
        ("episode_end", 0),
        ("iteration", 1),
        ("episode_end", 0),
        ("evaluation", 6, 1),
        ("checkpoint", "2", 2, True),
        ("iteration", 2),
        ("run_end", "stopped", 2),
    ]


def test_episodes_are_told_with_the_number_of_their_evaluator() -> None:
    log = Log()
    config = linear(
        {
            "env": "rlcore.testing.environments:Count",
            "evaluators": {"count": 2, "envs": 1, "fragment": 3},
            "runtime": "inline",
        }
    )
    with Trainer(config, hooks=[log]) as trainer:
        trainer.step()
    assert [event for event in log.events if event[0] == "episode_end"] == [("episode_end", 0), ("episode_end", 1)]


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Trainer(linear()) as trainer:
        result = trainer.train()
        assert result["weights_sha256"] == trainer.weights_sha256()
    assert list(tmp_path.iterdir()) == []


def test_training_goes_on_after_its_end_where_more_is_asked_for() -> None:
    with Trainer(linear()) as trainer:
        assert trainer.train()["iteration"] == 3
        assert trainer.train()["iteration"] == 3
        assert trainer.step()["iteration"] == 4


def test_a_run_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(RunFolderError, match="exists and is not empty"):
        Trainer(linear(), out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"algorithm": "pgg"}, PluginError, "unknown algorithm 'pgg'; did you mean 'pg'"),
        ({"framework": "nunpy"}, PluginError, "unknown framework 'nunpy'; did you mean 'numpy'"),
        ({"optimizer.name": "all_reduce"}, PluginError, "unknown optimizer 'all_reduce'; did you mean 'allreduce'"),
        ({"env": "CartPole-v9"}, PluginError, "CartPole-v9"),
        ({"policy.learnin_rate": 1}, ConfigError, "policy.learnin_rate: unknown key, did you mean 'learning_rate'?"),
        ({"env_settings": {"lenght": 1}}, UserError, "lenght"),
        ({"policies": {"default": {"trained": False}}}, ConfigError, "policies: none of them is trained"),
        ({"policy_of": "rlcore.trainer:__doc__"}, ConfigError, "neither a function nor a mapping"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(
    changes: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error) as caught:
        Trainer(linear(changes), out=tmp_path / "run")
    assert message in str(caught.value) and len(str(caught.value).splitlines()) <= 4
    assert not (tmp_path / "run").exists()


class Counted(CountEnv):
    """Counts how many of it have been made, and how many closed."""

    made, closed = 0, 0

    def __init__(self) -> None:
        super().__init__(7)
        Counted.made += 1

    def close(self) -> None:
        Counted.closed += 1


@pytest.mark.parametrize(
    ("evaluators", "made"), [({"envs": 3}, 3), ({"count": 2, "envs": 3}, 7)], ids=["driver", "two evaluators"]
)
def test_no_environment_is_made_that_is_not_used_and_all_are_closed(evaluators: dict[str, int], made: int) -> None:
    Counted.made = Counted.closed = 0
    with Trainer(linear({"env": Counted, "evaluators": evaluators, "runtime": "inline"})) as trainer:
        assert Counted.made == made
        trainer.step()
    assert Counted.made == made and Counted.closed >= made


def test_the_environment_is_closed_where_the_parts_cannot_be_built() -> None:
    Counted.made = Counted.closed = 0
    with pytest.raises(ConfigError, match="none of them is trained"):
        Trainer(linear({"env": Counted, "policies": {"default": {"trained": False}}}))
    assert Counted.made == 3 and Counted.closed >= 3


def test_an_optimizer_that_needs_another_graph_says_so(tmp_path: Path) -> None:
    config = linear({"resources.learner_gpus": 1, "optimizer.name": "allreduce"})
    with pytest.raises(ConfigError, match=r"^resources\.learner_gpus: optimizer allreduce has no"):
        Trainer(config, out=tmp_path / "run")


def test_closing_ends_a_run_of_single_steps(tmp_path: Path) -> None:
    log = Log()
    with Trainer(linear({"stop": {}}), out=tmp_path / "run", hooks=[log]) as trainer:
        rows = [trainer.step() for _ in range(2)]
        sha256 = trainer.weights_sha256()
    run = RunFolder.open(tmp_path / "run")
    assert run.checkpoints().iterations() == [2]
    assert run.result() == {**rows[-1], "status": "closed", "stop_reason": None, "weights_sha256": sha256}
    trainer.close()
    assert [event for event in log.events if event[0] == "run_end"] == [("run_end", "closed", 2)]
    with Trainer.restore(tmp_path / "run") as restored:
        assert restored.weights_sha256() == sha256
        assert restored.step()["iteration"] == 3
    result = run.result()
    assert result is not None and result["iteration"] == 3


def test_closing_after_a_stop_key_was_reached_names_it(tmp_path: Path) -> None:
    trainer = Trainer(linear({"stop.iteration": 2}), out=tmp_path / "run")
    for _ in range(2):
        trainer.step()
    trainer.close()
    result = RunFolder.open(tmp_path / "run").result()
    assert result is not None and (result["status"], result["stop_reason"]) == ("stopped", "iteration=2")


def test_closing_without_a_step_writes_nothing(tmp_path: Path) -> None:
    with Trainer(linear(), out=tmp_path / "run") as trainer:
        trainer.evaluate(1)
    assert RunFolder.open(tmp_path / "run").result() is None
    assert RunFolder.open(tmp_path / "run").checkpoints().iterations() == []


def test_training_that_has_ended_is_not_ended_again(tmp_path: Path) -> None:
    log = Log()
    with Trainer(linear(), out=tmp_path / "run", hooks=[log]) as trainer:
        result = trainer.train()
    assert RunFolder.open(tmp_path / "run").result() == result
    assert [event[0] for event in log.events].count("run_end") == 1


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (ValueError("mine"), "failed", "ValueError: mine"),
        (KeyboardInterrupt(), "interrupted", None),
        (SystemExit(0), "closed", None),
    ],
)
def test_what_ends_a_run_of_single_steps_is_its_status(
    error: BaseException, status: str, reason: str | None, tmp_path: Path
) -> None:
    with pytest.raises(type(error)), Trainer(linear(), out=tmp_path / "run") as trainer:
        trainer.step()
        raise error
    run = RunFolder.open(tmp_path / "run")
    result = run.result()
    assert result is not None and (result["status"], result["stop_reason"]) == (status, reason)
    assert run.checkpoints().iterations() == [1]


class Interrupt:
    """Presses Ctrl-C in an iteration, so many times."""

    def __init__(self, iteration: int, times: int = 1, number: int = signal.SIGINT) -> None:
        self.at, self.times, self.number = iteration, times, number

    def iteration(self, row: Any) -> None:
        if row["iteration"] == self.at:
            for _ in range(self.times):
                os.kill(os.getpid(), self.number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_interrupt_stops_at_a_safe_point_with_a_checkpoint_that_resumes(tmp_path: Path, number: int) -> None:
    config = linear({"stop.iteration": 5})
    with Trainer(config) as trainer:
        whole = trainer.train()
    before = signal.getsignal(signal.SIGINT)
    with Trainer(config, out=tmp_path / "run", hooks=[Interrupt(2, number=number)]) as trainer:
        result = trainer.train()
    assert (result["status"], result["iteration"], result["stop_reason"]) == ("interrupted", 2, None)
    assert signal.getsignal(signal.SIGINT) is before
    run = RunFolder.open(tmp_path / "run")
    assert run.result() == result and run.checkpoints().iterations() == [2]
    with Trainer.restore(tmp_path / "run") as restored:
        assert without_times(restored.train()) == without_times(whole)


def test_the_second_interrupt_stops_at_once_and_leaves_the_last_complete_checkpoint(tmp_path: Path) -> None:
    config = linear({"checkpoints.every": 2, "stop.iteration": 9})
    with (
        Trainer(config, out=tmp_path / "run", hooks=[Interrupt(3, times=2)]) as trainer,
        pytest.raises(KeyboardInterrupt),
    ):
        trainer.train()
    run = RunFolder.open(tmp_path / "run")
    result = run.result()
    assert result is not None and result["status"] == "interrupted"
    assert run.checkpoints().iterations() == [2]
    with Trainer.restore(tmp_path / "run") as restored:
        assert restored.counters.iteration == 2
        assert restored.weights_sha256() == result["weights_sha256"]


def test_training_in_a_thread_leaves_signals_alone() -> None:
    before, results = signal.getsignal(signal.SIGINT), []
    with Trainer(linear()) as trainer:
        thread = threading.Thread(target=lambda: results.append(trainer.train()["status"]))
        thread.start()
        thread.join()
    assert results == ["stopped"] and signal.getsignal(signal.SIGINT) is before


class Fragile(CountEnv):
    """Breaks in the step of that number, counted over all episodes."""

    def __init__(self, breaks: int = 40) -> None:
        super().__init__(7)
        self.left = breaks

    def step(self, action: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            raise ValueError("boom")
        return super().step(action)


def test_a_failed_run_leaves_a_checkpoint_of_its_last_iteration(tmp_path: Path) -> None:
    config = linear({"env": Fragile, "evaluators": {"envs": 1, "fragment": 10}, "stop.iteration": 6})
    with Trainer(config, out=tmp_path / "run") as trainer, pytest.raises(EnvError, match="boom"):
        trainer.train()
    run = RunFolder.open(tmp_path / "run")
    result = run.result()
    assert result is not None
    assert (result["status"], result["iteration"]) == ("failed", 3)
    assert result["stop_reason"].startswith("EnvError: ") and "boom" in result["stop_reason"]
    assert [row["iteration"] for row in run.rows()] == [1, 2, 3]
    assert run.checkpoints().iterations() == [3]
    with Trainer.restore(tmp_path / "run", trust=True) as restored:
        assert restored.weights_sha256() == result["weights_sha256"]


def test_a_step_that_failed_leaves_a_checkpoint_of_the_last_complete_one_when_closed(tmp_path: Path) -> None:
    config = linear({"env": Fragile, "evaluators": {"envs": 1, "fragment": 10}, "checkpoints.every": 2})
    trainer = Trainer(config, out=tmp_path / "run")
    digests = []
    with pytest.raises(EnvError, match="boom"):
        while True:
            trainer.step()
            digests.append(trainer.weights_sha256())
    trainer.close()
    run = RunFolder.open(tmp_path / "run")
    result = run.result()
    assert result is not None and result["status"] == "failed" and "boom" in result["stop_reason"]
    assert len(digests) == 3 and run.checkpoints().iterations() == [2, 3]
    with Trainer.restore(tmp_path / "run", trust=True) as restored:
        assert restored.weights_sha256() == result["weights_sha256"] == digests[-1]


def test_a_run_that_fails_in_its_first_iteration_can_begin_again(tmp_path: Path) -> None:
    config = linear({"env": Fragile, "env_settings": {"breaks": 2}, "evaluators": {"envs": 1, "fragment": 10}})
    with Trainer(config, out=tmp_path / "run") as trainer, pytest.raises(EnvError):
        trainer.train()
    run = RunFolder.open(tmp_path / "run")
    assert run.rows() == [] and run.checkpoints().iterations() == [0]
    result = run.result()
    assert result is not None and result["status"] == "failed"


class Failing:
    """A hook that fails in an iteration."""

    def iteration(self, row: Any) -> None:
        if row["iteration"] == 2:
            raise RuntimeError("a hook failed")


def test_a_hook_that_fails_ends_the_run_with_its_last_iteration_saved(tmp_path: Path) -> None:
    with (
        Trainer(linear(), out=tmp_path / "run", hooks=[Failing()]) as trainer,
        pytest.raises(RuntimeError, match="a hook failed"),
    ):
        trainer.train()
    run = RunFolder.open(tmp_path / "run")
    assert run.checkpoints().iterations() == [2]
    with Trainer.restore(tmp_path / "run") as restored:
        assert restored.train()["iteration"] == 3


def test_a_checkpoint_that_cannot_be_written_is_said_beside_what_ended_the_run(tmp_path: Path) -> None:
    config = linear({"env": Fragile, "env_settings": {"breaks": 2}, "evaluators": {"envs": 1, "fragment": 10}})
    with Trainer(config, out=tmp_path / "run") as trainer, pytest.raises(EnvError) as caught:
        (tmp_path / "run" / "checkpoints").write_text("in the way")
        trainer.train()
    assert caught.value.__notes__[0].startswith("the checkpoint of the last iteration could not be written: ")


def test_the_best_checkpoint_is_that_of_the_best_evaluation(tmp_path: Path) -> None:
    config = linear({"evaluation": {"every_env_steps": 75, "episodes": 3}, "stop.iteration": 8})
    with Trainer(config, out=tmp_path / "run") as trainer:
        trainer.train()
    run = RunFolder.open(tmp_path / "run")
    means = [row["evaluation_return_mean"] for row in run.rows()]
    assert run.checkpoints().best_score() == max(means)
    with Trainer.restore(tmp_path / "run" / "checkpoints" / "best") as best:
        assert best.counters.iteration == means.index(max(means)) + 1


def test_only_so_many_checkpoints_are_kept(tmp_path: Path) -> None:
    config = linear({"checkpoints": {"every": 1, "keep": 2, "best": False}, "stop.iteration": 5})
    with Trainer(config, out=tmp_path / "run") as trainer:
        trainer.train()
    run = RunFolder.open(tmp_path / "run")
    assert run.checkpoints().iterations() == [4, 5] and run.checkpoints().best() is None


def test_policies_of_one_run_learn_with_optimizers_of_their_own_from_the_same_samples() -> None:
    with Trainer(two_agents()) as trainer:
        first = trainer.weights()
        row = trainer.step()
        last = trainer.weights()
        kinds = [type(optimizer).__name__ for optimizer in trainer.optimizers]
        trains = [optimizer.trains for optimizer in trainer.optimizers]
    assert kinds == ["MultiGPU", "AllReduce"] and trains == [("left",), ("right",)]
    # 3 environments of 25 steps; left's rows are seen twice, right's once.
    assert (row["env_steps"], row["learnt_rows"], row["updates"]) == (75, 225, 3)
    assert {"left.policy_loss", "right.policy_loss"} <= set(row)
    for policy_id in ("left", "right"):
        assert any((first[policy_id][name] != last[policy_id][name]).any() for name in first[policy_id])


def test_policies_with_the_same_optimizer_share_one() -> None:
    config = two_agents({"policies": {"left": {}, "right": {}}})
    config["policies"] = {"left": {}, "right": {}}
    with Trainer(config) as trainer:
        assert [optimizer.trains for optimizer in trainer.optimizers] == [("left", "right")]


def test_a_policy_that_is_not_trained_stays_as_it_is() -> None:
    config = two_agents()
    config["policies"]["right"] = {"trained": False}
    with Trainer(config) as trainer:
        first = trainer.weights()
        trainer.step()
        last = trainer.weights()
    assert weights_sha256({"r": first["right"]}) == weights_sha256({"r": last["right"]})
    assert weights_sha256({"l": first["left"]}) != weights_sha256({"l": last["left"]})


def test_two_policies_learn_their_tasks() -> None:
    config = two_agents({"evaluators": {"envs": 8, "fragment": 32}, "policy.learning_rate": 0.02})
    config["policies"] = {"left": {}, "right": {}}
    with Trainer({**config, "stop": {"iteration": 40}}) as trainer:
        trainer.train()
        # 8 steps for each of the two, one point for the right answer.
        assert trainer.evaluate(10).episode_return_mean == 16.0


def test_agents_are_mapped_by_a_function_or_its_import_path() -> None:
    for policy_of in (str, "builtins:str"):
        config = two_agents()
        config["policy_of"] = policy_of
        with Trainer(config) as trainer:
            assert trainer.step()["env_steps"] == 75


def test_the_digest_of_weights_tells_names_types_shapes_and_values_apart() -> None:
    weights = {"a": {"w": np.zeros((2, 3), np.float32), "b": np.ones(2)}, "z": {"w": np.float64(1.0)}}
    same = {"z": weights["z"], "a": {"b": weights["a"]["b"], "w": np.asfortranarray(weights["a"]["w"])}}
    assert weights_sha256(weights) == weights_sha256(same)
    others = [
        {"a": {"w": np.zeros((3, 2), np.float32), "b": np.ones(2)}, "z": weights["z"]},
        {"a": {"w": np.zeros((2, 3), np.float64), "b": np.ones(2)}, "z": weights["z"]},
        {"a": {"v": np.zeros((2, 3), np.float32), "b": np.ones(2)}, "z": weights["z"]},
        {"a": {"w": np.zeros((2, 3), np.float32), "b": np.array([1.0, 2.0])}, "z": weights["z"]},
    ]
    assert len({weights_sha256(one) for one in [weights, *others]}) == 5
    expected = hashlib.sha256(b"p\0w\0<i2\0(3,)\0" + bytes([0, 0, 1, 0, 2, 0])).hexdigest()
    assert weights_sha256({"p": {"w": np.arange(3, dtype=np.int16)}}) == expected


def test_seeds_of_the_optimizers_follow_from_the_runs() -> None:
    def seeds(**changes: Any) -> list[int]:
        with Trainer({**two_agents(), **changes}) as trainer:
            return [optimizer.config.seed for optimizer in trainer.optimizers]  # type: ignore[attr-defined]

    first = seeds()
    assert first == seeds() and first[0] != first[1]
    assert not set(first) & set(seeds(seed=6))


@pytest.mark.parametrize("given", ["ppo", None, 3, ["ppo"]])
def test_what_is_no_config(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"^a config is a mapping with keys such as "):
        Trainer(given)


def test_numbers_of_numpy_are_numbers() -> None:
    config = linear({"seed": np.int64(3), "stop.iteration": np.int32(1), "stop.env_steps": np.float32(1e6)})
    with Trainer(
        config | {"policy": {"gamma": np.float64(0.9)}, "env_settings": {"sutton_barto_reward": np.True_}}
    ) as one:
        assert one.config.seed == 3 and type(one.config.seed) is int
        assert one.config.to_tree()["env_settings"] == {"sutton_barto_reward": True}
        one.train()


def test_a_closed_trainer_says_so(tmp_path: Path) -> None:
    with Trainer(linear({"stop.iteration": 1})) as trainer:
        trainer.train()
    for call in (trainer.step, trainer.train, trainer.evaluate, lambda: trainer.save(tmp_path / "late")):
        with pytest.raises(UserError, match=r"^the trainer is closed$"):
            call()
    trainer.close()


def test_policies_without_policy_of_in_an_environment_without_names(tmp_path: Path) -> None:
    with (
        Trainer(linear({"policies": {"a": {}, "b": {}}}), out=tmp_path / "run") as trainer,
        pytest.raises(UserError, match=r"^policy_of is missing: no policy bears the name of agent 0, .* a, b; "),
    ):
        trainer.train()


def test_policy_of_to_a_policy_that_does_not_exist() -> None:
    with pytest.raises(ConfigError, match=r"^policy_of: no policy c; there are: default$"):
        resolve(linear({"policy_of": {"agent": "c"}}))
    with (
        Trainer(two_agents({"policy_of": lambda agent: "up"})) as trainer,
        pytest.raises(UserError, match=r"^policy_of gave 'up' for agent 'left'; policies are: left, right$"),
    ):
        trainer.step()


class StartsBadly(CountEnv):
    """Is no environment at the first reset."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        raise OSError("no display")


class Impatient:
    """A hook that presses Ctrl-C twice before the first iteration."""

    def run_start(self) -> None:
        raise KeyboardInterrupt


def test_nothing_is_left_of_a_run_that_never_began(tmp_path: Path) -> None:
    with (
        pytest.raises(EnvError, match="no display"),
        Trainer(linear({"env": StartsBadly}), out=tmp_path / "run") as trainer,
    ):
        trainer.train()
    run = tmp_path / "run"
    assert not run.exists() or RunFolder.open(run).checkpoints().iterations() == [0]
    with (
        Trainer(linear(), out=tmp_path / "other", hooks=[Impatient()]) as trainer,
        pytest.raises(KeyboardInterrupt),
    ):
        trainer.train()
    assert not (tmp_path / "other").exists()


def test_a_run_at_its_stop_is_left_as_it_is(tmp_path: Path) -> None:
    with Trainer(linear({"stop.iteration": 2}), out=tmp_path / "run") as trainer:
        done = trainer.train()
    folder = tmp_path / "run" / "checkpoints"
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}
    for stop in (2, 1):
        with Trainer.restore(tmp_path / "run", overrides={"stop.iteration": stop}) as restored:
            again = restored.train()
        assert again == done | {"stop_reason": f"iteration={stop}"}
        now = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}
        assert now == before
