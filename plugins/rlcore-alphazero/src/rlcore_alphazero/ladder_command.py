"""``rlcore ladder``: the versions of a run against players of known strength and each other."""

from __future__ import annotations

import json
from pathlib import Path

import click

from rlcore_alphazero.ladder import LadderConfig, climb, judge, versions_of
from rlcore_alphazero.showing import draw, mistakes_table, table, trees


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--openings", type=click.IntRange(min=1), default=20, show_default=True, help="Each is played from every place."
)
@click.option("--mcts", default="100,400,1600", show_default=True, help="Simulations of plain searches, by commas.")
@click.option("--simulations", type=click.IntRange(min=1), help="Of the run's versions; else as in self-play.")
@click.option("--checkpoints", default="", help="Iterations, by commas, whose versions take part; else all.")
@click.option("--policy", metavar="ID", help="Which one, where the run has several.")
@click.option("--seed", default=0, show_default=True)
@click.option("--trust", is_flag=True, help="Import the modules that the checkpoints name.")
def ladder(
    run: Path,
    openings: int,
    mcts: str,
    simulations: int | None,
    checkpoints: str,
    policy: str | None,
    seed: int,
    trust: bool,
) -> None:
    """Play the checkpoints of RUN against a random player, plain Monte Carlo tree search and each other.

    The table goes to stdout, and with a picture into RUN as ladder.json and ladder.png. Where the game is solved,
    mistakes are counted as well: a second table, in the picture, and in RUN as mistakes.json.
    """
    config = LadderConfig(
        mcts=_numbers(mcts),
        openings=openings,
        simulations=simulations,
        checkpoints=_numbers(checkpoints),
        seed=seed,
        policy=policy,
    )
    model, versions = versions_of(run, config, trust)
    judged = list(judge(model, versions))
    if judged:
        click.echo(mistakes_table(judged))
        (run / "mistakes.json").write_text(json.dumps(trees(judged), indent=1))
    rungs = []
    for rung in climb(model, versions, config):
        rungs.append(rung)
        click.echo(f"iteration {rung.iteration} against {rung.opponent}: {100 * rung.rate:.0f} %", err=True)
    click.echo(table(rungs))
    (run / "ladder.json").write_text(json.dumps(trees(rungs), indent=1))
    click.echo(draw(rungs, judged, run / "ladder.png"), err=True)


def _numbers(text: str) -> tuple[int, ...]:
    """What stands between the commas; ``click.BadParameter`` for what is no number from 1 on."""
    try:
        numbers = tuple(int(number) for number in text.split(",") if number.strip())
    except ValueError as error:
        raise click.BadParameter(f"'{text}' is not numbers by commas") from error
    if any(number < 1 for number in numbers):
        raise click.BadParameter(f"'{text}': numbers from 1 on are wanted")
    return numbers
