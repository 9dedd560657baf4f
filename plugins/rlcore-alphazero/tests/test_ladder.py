"""The ladder of a run: which versions play, against whom, and what is made of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import rlcore
from rlcore.errors import UserError
from rlcore_alphazero.ladder import Judged, LadderConfig, Rung, climb, judge, versions_of
from rlcore_alphazero.ladder_command import ladder
from rlcore_alphazero.showing import mistakes_table, table

pytest.importorskip("rlcore_torch")
pytest.importorskip("rlcore_batched")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two checkpoints of a short run of tic-tac-toe."""
    config = {
        "algorithm": "alphazero",
        "env": "batched:tictactoe",
        "seed": 1,
        "evaluators": {"envs": 4, "fragment": 4},
        "model": {"hidden": [8]},
        "policy": {"search": {"simulations": 2}},
        "checkpoints": {"every": 1, "keep": 9, "best": False},
        "stop": {"env_steps": 32},
    }
    folder = tmp_path_factory.mktemp("ladder") / "run"
    with rlcore.Trainer(config, out=folder) as trainer:
        trainer.train()
    return folder


CONFIG = LadderConfig(mcts=(5,), openings=2, simulations=2)


def test_versions_play_the_known_opponents_and_all_before_them(run: Path) -> None:
    model, versions = versions_of(run, CONFIG)
    assert [(version.iteration, version.env_steps) for version in versions] == [(1, 16), (2, 32)]
    rungs = list(climb(model, versions, CONFIG))
    met = [(rung.iteration, rung.opponent) for rung in rungs]
    assert met == [(1, "random"), (1, "mcts-5"), (2, "random"), (2, "mcts-5"), (2, "version-1")]
    assert all(rung.wins + rung.draws + rung.losses == 4 for rung in rungs)
    assert rungs == list(climb(*versions_of(run, CONFIG), CONFIG))


def test_mistakes_are_counted_in_all_solved_positions(run: Path) -> None:
    judged = list(judge(*versions_of(run, CONFIG)))
    assert [(one.iteration, one.part) for one in judged] == [(1, "all"), (2, "all")]
    assert all(0.0 < one.mistakes < 1.0 and 0.0 < one.network_mistakes < 1.0 for one in judged)


def test_some_checkpoints_alone_and_none_that_there_is_not(run: Path) -> None:
    _, versions = versions_of(run, LadderConfig(checkpoints=(2,)))
    assert [version.iteration for version in versions] == [2]
    with pytest.raises(UserError, match="no checkpoint of iteration 7, 8"):
        versions_of(run, LadderConfig(checkpoints=(2, 8, 7)))


def test_tables_have_a_line_a_version() -> None:
    rungs = [Rung(1, 16, "random", 3, 1, 0, 0.875), Rung(2, 32, "random", 4, 0, 0, 1.0), Rung(2, 32, "x", 0, 0, 4, 0.0)]
    assert table(rungs).splitlines() == [
        "iteration  env steps      random         x",
        "        1         16   88% 3/1/0          ",
        "        2         32  100% 4/0/0  0% 0/0/4",
    ]
    judged = [Judged(1, 16, "all", 0.25, 0.5), Judged(1, 16, "end", 0.0, 0.125)]
    assert mistakes_table(judged).splitlines() == [
        "iteration  env steps          all         end",
        "        1         16  25.0% 50.0%  0.0% 12.5%",
    ]


def test_the_command_prints_tables_and_writes_them_with_a_picture(run: Path) -> None:
    result = CliRunner().invoke(ladder, [str(run), "--mcts", "5", "--openings", "1", "--checkpoints", "1"])
    assert result.exit_code == 0, result.output
    assert "mcts-5" in result.stdout
    assert [row["opponent"] for row in json.loads((run / "ladder.json").read_text())] == ["random", "mcts-5"]
    assert [row["part"] for row in json.loads((run / "mistakes.json").read_text())] == ["all"]
    assert (run / "ladder.png").read_bytes().startswith(b"\x89PNG")
    wrong = CliRunner().invoke(ladder, [str(run), "--mcts", "many"])
    assert wrong.exit_code == 2 and "'many' is not numbers by commas" in wrong.output
