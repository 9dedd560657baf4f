"""``rlcore play``, and what ``rlcore evaluate`` adds where a game is solved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import rlcore
from rlcore.cli import main
from rlcore.errors import UserError
from rlcore.playing import load_game

pytest.importorskip("rlcore_torch")
pytest.importorskip("rlcore_alphazero")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a moment."""
    folder = tmp_path_factory.mktemp("runs") / "ttt"
    config: dict[str, Any] = {
        "algorithm": "alphazero",
        "env": "batched:tictactoe",
        "env_settings": {},
        "model": {"hidden": [16], "shared_value": True},
        "policy": {"search": {"simulations": 8}},
        "optimizer": {"name": "alphazero", "learning_starts": 50, "gate": {"every": 2, "openings": 4}},
        "evaluators": {"envs": 8, "fragment": 8},
        "stop": {"env_steps": 192},
    }
    with rlcore.Trainer(config, out=folder) as trainer:
        trainer.train()
    return folder


def called(*arguments: str, typed: str = "") -> tuple[int, str]:
    done = CliRunner().invoke(main, list(arguments), input=typed, standalone_mode=False)
    return done.exit_code, done.output


def test_a_game_is_played_to_its_end(run: Path) -> None:
    code, output = called("play", str(run), typed="".join(f"{cell}\n" for cell in range(9)) * 3)
    assert code == 0
    assert output.splitlines()[0] == ". . ."
    assert output.splitlines()[-1] in ("you win", "you lose", "a draw")
    assert "it plays: " in output


def test_what_is_no_move_is_asked_for_again(run: Path) -> None:
    code, output = called("play", str(run), typed="12\nx\n0\n0\nq\n")
    assert code == 0
    assert "'12' is no legal move" in output and "'x' is no legal move" in output and "'0' is no legal move" in output


@pytest.mark.parametrize(("pressed", "code"), [(KeyboardInterrupt, 130), (EOFError, 0)])
def test_ctrl_c_ends_a_game_as_it_ends_every_command(
    run: Path, monkeypatch: pytest.MonkeyPatch, pressed: type[BaseException], code: int
) -> None:
    def prompt(_: str) -> str:
        raise pressed

    monkeypatch.setattr("click.termui.visible_prompt_func", prompt)
    with pytest.raises(SystemExit) as ended:
        main(["play", str(run)])
    assert ended.value.code == code


def test_it_plays_itself_the_same_game_again(run: Path) -> None:
    first, second = (called("play", str(run), "--seat", "-1", "--simulations", "4")[1] for _ in range(2))
    assert first == second
    assert first.splitlines()[-1].startswith("the end: player 0 has ")


def test_one_may_play_second(run: Path) -> None:
    _, output = called("play", str(run), "--seat", "1", typed="q\n")
    assert output.splitlines()[3].startswith("it plays: ")


def test_a_seat_that_is_not_there_is_refused(run: Path) -> None:
    with pytest.raises(UserError, match="there are 2 players, numbered from 0"):
        load_game(run, policy=None, seat=2, simulations=None, seed=0, trust=False)


def test_policies_are_named_where_they_are_not_found(run: Path) -> None:
    with pytest.raises(UserError, match="name one of its policies with --policy: default"):
        load_game(run, policy="other", seat=0, simulations=None, seed=0, trust=False)


def test_mistakes_are_counted_where_the_game_is_solved(run: Path) -> None:
    code, output = called("evaluate", str(run), "--episodes", "2")
    assert code == 0
    found = json.loads(output.splitlines()[-1])
    assert 0.0 < found["mistakes"] < found["network_mistakes"] < 1.0
    assert found["episodes"] == 2


def test_a_saved_policy_acts_without_an_environment(run: Path) -> None:
    policy = rlcore.load_policy(run)
    obs = {key: space.sample() * 0 for key, space in policy.observation_space.spaces.items()}
    obs["action_mask"] += 1
    action = policy.act(obs)
    policy.reset()
    assert policy.act(obs) == action
    assert 0 <= action < 9
