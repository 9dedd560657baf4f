"""``rlcore play``."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from rlcore.playing import PlayedGame, load_game


@click.command()
@click.argument("saved", metavar="RUN_OR_CHECKPOINT", type=click.Path(path_type=Path))
@click.option("--seat", metavar="N", type=int, default=0, help="Which player you are, from 0; -1: watch it play.")
@click.option("--simulations", metavar="N", type=click.IntRange(min=1), help="Of each of its moves, where it plans.")
@click.option("--policy", metavar="ID", help="Which one, where the run has several.")
@click.option("--seed", metavar="S", type=int, default=0, help="For what is drawn.")
@click.option("--trust", is_flag=True, help="Import the modules that the checkpoint names.")
def play(saved: Path, seat: int, simulations: int | None, policy: str | None, seed: int, trust: bool) -> None:
    """Play a game against a trained policy, in the terminal: type the number of a move, or q to stop."""
    game = load_game(saved, policy=policy, seat=seat, simulations=simulations, seed=seed, trust=trust)
    while not game.over:
        click.echo(game.text())
        if game.humans_turn:
            action = _asked(game)
            if action is None:
                return
            game.make(action)
        else:
            drawn = game.chance_moves
            click.echo(f"{'drawn' if drawn else 'it plays'}: {game.others_move()}")
    click.echo(game.text())
    click.echo(_ending(game))


def _asked(game: PlayedGame) -> int | None:
    """A legal move; None where the human stops."""
    legal = game.legal()
    while True:
        try:
            answer = click.prompt(f"your move ({', '.join(map(str, legal))})", prompt_suffix=": ").strip()
        except click.Abort as stopped:
            # The end of the input leaves the game; Ctrl-C ends the command as it does everywhere.
            if isinstance(stopped.__context__, KeyboardInterrupt):
                raise
            return None
        if answer == "q":
            return None
        if answer.isdigit() and int(answer) in legal:
            return int(answer)
        click.echo(f"'{answer}' is no legal move")


def _ending(game: PlayedGame) -> str:
    returns = game.returns
    if game.seat < 0 or game.model.players == 1:
        return f"the end: {', '.join(f'player {i} has {value:g}' for i, value in enumerate(returns))}"
    own, others = returns[game.seat], np.delete(returns, game.seat).max()
    return "you win" if own > others else "you lose" if own < others else "a draw"
