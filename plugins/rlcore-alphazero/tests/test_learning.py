"""Tic-tac-toe learnt to perfection, and Connect Four well enough to beat plain search: minutes."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest

import rlcore
from rlcore.evaluate_saved import evaluate_saved
from rlcore.resolve import resolve
from rlcore.saved_policies import read_policies
from rlcore.tree_search.players import Player, network_search_player
from rlcore.tree_search.settings import SearchConfig
from rlcore_alphazero.ladder import LadderConfig, climb, versions_of

games = pytest.importorskip("rlcore_batched.games.tictactoe")

#: Less than the recipe has for it: a network that a minute and a half of one core is enough for.
CONNECT_FOUR = {
    "algorithm": "alphazero",
    "env": "batched:connect_four",
    "model": {"hidden": [512, 512]},
    "evaluators": {"envs": 128, "fragment": 16},
    "optimizer": {"capacity": 200_000, "gate": {"every": 6, "openings": 64, "simulations": 16}},
    "stop": {"env_steps": 122_880},
}


def losses(player: Player, side: int) -> tuple[int, int]:
    """How many games it loses and ends in all as player ``side``, whatever the other one does."""
    game, rng = games.TicTacToe(), np.random.default_rng(0)
    states, lost, ended = game.initial(1, rng), 0, 0
    while len(states):
        if game.to_play(states)[0] == side:
            rows = np.arange(len(states))
            player.begin()
            moves = player.moves(states, rows, rng)
        else:
            rows, moves = np.nonzero(game.legal(states))
        states, rewards = game.step(states[rows], moves, rng)
        over = game.terminal(states)
        lost, ended = lost + int((rewards[over, side] < 0).sum()), ended + int(over.sum())
        states = np.unique(states[~over], axis=0)
    return lost, ended


@pytest.mark.learning
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("framework", "seed"), [("torch", 1), ("torch", 2), ("tf", 1)])
def test_tic_tac_toe_is_learnt_without_a_mistake(tmp_path: Path, framework: str, seed: int) -> None:
    pytest.importorskip(f"rlcore_{framework}")
    config = {"algorithm": "alphazero", "framework": framework, "env": "batched:tictactoe", "seed": seed}
    config["stop"] = {"env_steps": 40_960}
    with rlcore.Trainer(config, out=tmp_path / "run") as trainer:
        trainer.train()
    figures = evaluate_saved(tmp_path / "run", 2).to_tree()
    assert figures["mistakes"] == 0.0
    assert figures["network_mistakes"] <= 0.02
    policy = read_policies(tmp_path / "run")["default"].build()
    search = SearchConfig(simulations=50, solver=False)
    player = network_search_player(games.TicTacToe(), functools.partial(policy.call, "network"), search)
    for side in (0, 1):
        lost, ended = losses(player, side)
        assert lost == 0 and ended > 20


@pytest.mark.learning
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [1])
def test_connect_four_is_learnt_well_enough_to_beat_plain_search(tmp_path: Path, seed: int) -> None:
    run = resolve({**CONNECT_FOUR, "seed": seed}, env_settings=False)
    with rlcore.Trainer(run, out=tmp_path / "run") as trainer:
        trainer.train()
    config = LadderConfig(mcts=(100,), checkpoints=(trainer.counters.iteration,))
    rungs = {rung.opponent: rung for rung in climb(*versions_of(tmp_path / "run", config), config)}
    assert rungs["random"].rate >= 0.95
    assert rungs["mcts-100"].rate >= 0.7
    figures = evaluate_saved(tmp_path / "run", 2).to_tree()
    # Whoever draws moves evenly makes mistakes in 58 % of these positions.
    assert figures["mistakes"] <= 0.3
    assert figures["network_mistakes"] <= 0.45
