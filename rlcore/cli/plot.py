"""``rlcore plot``."""

from __future__ import annotations

from pathlib import Path

import click

from rlcore.plotting import plot_runs

PICTURE = "learning_curve.png"


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"The picture, in the format that its ending names; else RUN/{PICTURE}, or ./{PICTURE} for several runs.",
)
def plot(runs: tuple[Path, ...], out: Path | None) -> None:
    """Draw the learning curves of runs into one picture, and print its path.

    Runs with the same settings and different seeds become one curve, their mean with the spread around it.
    """
    default = runs[0] / PICTURE if len(runs) == 1 else Path(PICTURE)
    click.echo(plot_runs(runs, out or default))
