"""Real evaluators that are killed, raise and hang while a run goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.doomed_env import HANG, KILL, RAISE
from support.runs import linear
from support.workers import Process

from rlcore.errors import WorkerLost
from rlcore.runtime.base import Resources, Runtime
from rlcore.trainer import Trainer

pytest.importorskip("rlcore_sync")
pytest.importorskip("rlcore_gym")

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.usefixtures("local_ray")]

#: Rows of one iteration.
ROWS = 2 * 3 * 25

#: Seconds after which an evaluator hangs here; a step takes a small part of that.
TIMEOUT_S = 5.0


class Losses:
    """A hook that notes what is told of losses."""

    def __init__(self) -> None:
        self.told: list[tuple[int, str]] = []

    def worker_lost(self, index: int, cause: str) -> None:
        self.told.append((index, cause))


class Run:
    """A trainer with two evaluators whose environments do as the files in a folder say."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.losses = Losses()
        config = linear({
            "env": "support.doomed_env:Doomed",
            "env_settings": {"folder": str(folder)},
            "evaluators": {"count": 2, "timeout_s": TIMEOUT_S},
            "filter": "mean_std",
            "runtime": "ray",
            **settings,
        })
        self.trainer = Trainer(config, hooks=[self.losses])

    def step(self, fate: str | None = None) -> dict[str, Any]:
        if fate is not None:
            (self.folder / fate).touch()
        return self.trainer.step()

    def states(self) -> list[dict[str, Any]]:
        states = self.trainer.evaluators.get_state()["evaluators"]
        return [states[str(i)] for i in range(2)]


def assert_replicas_have(weights: dict[str, Any], trainer: Trainer) -> None:
    for handle in trainer.evaluators.handles:
        own = trainer.evaluators.settle([(handle, handle.submit("get_weights"))])[0]["default"]
        for name, array in own.items():
            np.testing.assert_array_equal(array, weights[name])


@pytest.fixture(params=["multi_gpu", "allreduce"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Run]:
    one = Run(tmp_path, **{"optimizer.name": request.param})
    yield one
    one.trainer.close()


def test_training_goes_on_when_evaluators_are_killed_raise_and_hang(run: Run) -> None:
    assert run.step()["env_steps"] == ROWS
    expected = 1
    for fate, cause in ((KILL, "process "), (RAISE, "EnvError: "), (HANG, f"it did not answer within {TIMEOUT_S:g} s")):
        row = run.step(fate)
        expected += 1
        assert row["env_steps"] == expected * ROWS
        index, told = run.losses.told[-1]
        assert index in (0, 1) and told.startswith(cause) and "\n" not in told
        # Another one, and things are as they were.
        expected += 1
        assert run.step()["env_steps"] == expected * ROWS
        first, second = run.states()
        assert first["versions"] == second["versions"] == {"default": expected}
        for name in ("count", "mean", "m2"):
            pair = [state["filters"]["default"][""]["statistics"][name] for state in (first, second)]
            np.testing.assert_array_equal(*pair)
        weights = run.trainer.weights()["default"]
        assert_replicas_have(weights, run.trainer)
        assert first["rng"] != second["rng"]
    assert len(run.losses.told) == 3


@pytest.mark.parametrize("moment", ["before its gradients", "while they are averaged"])
def test_a_replica_that_is_killed_in_the_middle_of_a_step(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rlcore.runtime.ray import RayRuntime

    run = Run(tmp_path, optimizer={"name": "allreduce", "epochs": 2, "minibatch_size": 30})
    run.step()
    victim = next(pid for path in tmp_path.iterdir() if (pid := int(path.name.partition("-")[2])) != os.getpid())
    reduce, calls = RayRuntime.reduce, []

    def killing(self: RayRuntime, *given: Any) -> Any:
        calls.append(given)
        if len(calls) == 3 and moment == "while they are averaged":
            self.get(list(given[0]))
        if len(calls) == 3:
            os.kill(victim, signal.SIGKILL)
        return reduce(self, *given)

    monkeypatch.setattr(RayRuntime, "reduce", killing)
    (optimizer,) = run.trainer.optimizers
    result = optimizer.step()
    assert (result.env_steps, result.updates, result.skipped_updates) == (ROWS, 10, 0)
    assert result.dropped_rows in (0, ROWS // 2) and result.learnt_rows >= ROWS
    run.trainer.evaluators.get_state()
    assert len(run.losses.told) == 1
    assert_replicas_have(run.trainer.weights()["default"], run.trainer)
    result = optimizer.step()
    assert (result.env_steps, result.updates, result.learnt_rows, result.dropped_rows) == (ROWS, 10, 2 * ROWS, 0)
    assert_replicas_have(run.trainer.weights()["default"], run.trainer)
    run.trainer.close()


def test_an_evaluator_that_is_killed_again_and_again_ends_the_run(tmp_path: Path) -> None:
    run = Run(tmp_path, env="support.doomed_env:Hopeless")
    with pytest.raises(WorkerLost, match="was lost: process ") as caught:
        run.step()
    run.trainer.close()
    assert "was replaced after this, 2 times, and failed again" in caught.value.__notes__[0]
    assert 2 <= len(run.losses.told) <= 4


@pytest.mark.parametrize("optimizer", ["multi_gpu", "allreduce"])
def test_a_run_begins_without_an_evaluator_in_whose_place_another_is(optimizer: str, ray_runtime: Runtime) -> None:
    other = ray_runtime.spawn(Process, Resources(cpus=1.0))
    ray_runtime.get(other.submit("pid"))
    told: list[list[int]] = []

    class Told:
        def places_vacant(self, places: list[int]) -> None:
            told.append(list(places))

    evaluators = {"count": 2, "room_timeout_s": 1.0}
    config = linear({"optimizer.name": optimizer, "evaluators": evaluators, "runtime": "ray"})
    with pytest.warns(UserWarning, match="waiting for others to end"):
        trainer = Trainer(config, hooks=[Told()])
    assert [trainer.step()["env_steps"] for _ in range(2)] == [ROWS // 2, ROWS]
    # Where processes start slowly, both places may have been vacant for a moment.
    assert len(told[-1]) == 1 and trainer.row["missing_samples"] == 2
    ray_runtime.kill(other)
    rows = [trainer.step()]
    while told[-1]:
        rows.append(trainer.step())
    assert rows[-1]["missing_samples"] == len(rows) + 1
    assert trainer.step()["env_steps"] == rows[-1]["env_steps"] + ROWS
    assert_replicas_have(trainer.weights()["default"], trainer)
    trainer.close()
