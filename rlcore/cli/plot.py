"""``rlcore plot``."""

from __future__ import annotations

from pathlib import Path

import click

from rlcore.plotting import plot_runs
from rlcore.plotting.curves import RETURN, STEPS

PICTURE = "learning_curve.png"


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--key", metavar="KEY", default=RETURN, help=f"The key of a run's rows that is drawn; {RETURN}.")
@click.option("--over", metavar="KEY", default=STEPS, help=f"The key that it is drawn over, as wall_s; {STEPS}.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"The picture, in the format that its ending names, .html for a page; else RUN/{PICTURE}, or ./{PICTURE} "
    "for several runs.",
)
def plot(runs: tuple[Path, ...], key: str, over: str, out: Path | None) -> None:
    """Draw the learning curves of runs into one picture, and print its path.

    Runs with the same settings and different seeds become one curve: their median with the quartiles around it.
    """
    default = runs[0] / PICTURE if len(runs) == 1 else Path(PICTURE)
    click.echo(plot_runs(runs, out or default, key, over))
