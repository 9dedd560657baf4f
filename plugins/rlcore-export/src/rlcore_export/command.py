"""``rlcore export``."""

from __future__ import annotations

from pathlib import Path

import click

#: Where a policy is written that nobody gave a file.
FILE = "policy.onnx"


@click.command()
@click.argument("saved", metavar="RUN_OR_CHECKPOINT", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(["onnx"]), default="onnx", help="What is written.")
@click.option(
    "--out", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help=f"The file; else ./{FILE}."
)
@click.option("--policy", metavar="ID", help="Which one, where the run has several.")
@click.option("--trust", is_flag=True, help="Import the modules that the checkpoint names.")
def export(saved: Path, form: str, out: Path | None, policy: str | None, trust: bool) -> None:
    """Write a trained policy as a file that acts without rlcore, and print its path.

    The file takes raw observations and gives the environment's actions: the observation filter, the networks and the
    scaling of actions are inside. Of a run its last checkpoint is taken; the best one is RUN/checkpoints/best.
    """
    from rlcore_export.exporting import export_onnx

    click.echo(export_onnx(saved, out or Path(FILE), policy=policy, trust=trust))
