"""The ends of a run: closed, interrupted, failed."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from support.run_log import Log
from support.runs import linear, without_times

from rlcore.errors import EnvError, UserError
from rlcore.results import RunFolder
from rlcore.testing.environments import CountEnv
from rlcore.trainer import Trainer


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


def test_a_closed_trainer_says_so(tmp_path: Path) -> None:
    with Trainer(linear({"stop.iteration": 1})) as trainer:
        trainer.train()
    for call in (trainer.step, trainer.train, trainer.evaluate, lambda: trainer.save(tmp_path / "late")):
        with pytest.raises(UserError, match=r"^the trainer is closed$"):
            call()
    trainer.close()


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
