"""Steps of ``async_samples`` end whether or not there was a batch, and when they are to be cut short."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from support.runs import linear, without_times

from rlcore.errors import RlcoreError
from rlcore.graph_spec import RemarkWarning
from rlcore.stepping import Turn, step_in_turns
from rlcore.trainer import Trainer


def settings(**changes: Any) -> dict[str, Any]:
    return linear(
        {
            "evaluators.count": 2,
            "evaluators.envs": 2,
            "evaluators.fragment": 10,
            "runtime": "inline",
            "optimizer": {"name": "async_samples", "batch_size": 10**6},
            **changes,
        }
    )


def test_a_step_ends_without_a_batch() -> None:
    config = settings(stop={"env_steps": 700})
    with pytest.warns(RemarkWarning, match="batch_size"):
        trainer = Trainer(config)
    with trainer:
        row = trainer.train()
    assert row["status"] == "stopped" and row["env_steps"] >= 700 and row["updates"] == 0


@pytest.mark.parametrize("optimizer", ["async_samples", "async_gradients", "sharded_ps"])
def test_ctrl_c_ends_a_step_before_it_is_over(optimizer: str) -> None:
    config = settings(optimizer={"name": optimizer, "rounds": 10**6})
    with Trainer(config) as trainer:
        source, seen = trainer.optimizers[0], []
        turn = source.turn  # type: ignore[attr-defined]

        def watched() -> Any:
            seen.append(1)
            if len(seen) == 5:
                os.kill(os.getpid(), signal.SIGINT)
            return turn()

        source.turn = watched  # type: ignore[attr-defined]
        row = trainer.train()
    assert row["status"] == "interrupted" and row["iteration"] == 1 and row["updates"] > 0 and len(seen) == 5


def test_a_step_that_is_cut_short_says_what_came_in() -> None:
    with Trainer(settings(optimizer={"name": "async_gradients", "rounds": 10**6})) as trainer:
        own: Any = trainer.optimizers
        left = iter([False, False, True])
        (result,) = step_in_turns(own, own[0].runtime, lambda: next(left))
        assert result.updates == 4 and result.env_steps == 4 * 2 * 10


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize(
    "optimizer", [{}, {"batch_size": 90, "rounds": 3}, {"batch_size": 50, "replay_share": 0.5, "aggregators": 2}]
)
def test_in_process_it_goes_on_exactly(tmp_path: Path, optimizer: dict[str, Any], count: int) -> None:
    own = {"name": "async_samples", "epochs": 2, "minibatch_size": 16, **optimizer}
    config = settings(optimizer=own, filter="mean_std", **{"evaluators.count": count})
    with Trainer(config) as trainer:
        for _ in range(3):
            trainer.step()
        trainer.save(tmp_path / "saved")
        rows = [without_times(trainer.step()) for _ in range(3)]
        whole = trainer.weights_sha256()
    with Trainer.restore(tmp_path / "saved", trust=True) as trainer:
        assert [without_times(trainer.step()) for _ in range(3)] == rows
        assert trainer.weights_sha256() == whole


def test_a_program_that_waits_twice_in_a_turn_is_refused() -> None:
    with Trainer(settings(optimizer={"name": "async_gradients"})) as trainer:
        own: Any = trainer.optimizers[0]
        own.turn = lambda: iter([Turn(room=1), Turn(room=1)])
        with pytest.raises(RlcoreError, match="AsyncGradients waits twice in one turn"):
            own.step()


def test_shards_that_have_nothing_are_remarked_on() -> None:
    with pytest.warns(RemarkWarning, match="shards"):
        Trainer(settings(optimizer={"name": "sharded_ps", "shards": 2000})).close()


def test_a_config_that_is_right_has_no_remarks(recwarn: pytest.WarningsRecorder) -> None:
    Trainer(settings(optimizer={"name": "sharded_ps", "shards": 2}, stop={"env_steps": 1000})).close()
    assert not [one for one in recwarn if issubclass(one.category, RemarkWarning)]
