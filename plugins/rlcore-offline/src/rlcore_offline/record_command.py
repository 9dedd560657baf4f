"""``rlcore record``."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command()
@click.argument("saved", metavar="RUN_OR_CHECKPOINT", type=click.Path(path_type=Path))
@click.option("--out", metavar="DIR", required=True, type=click.Path(path_type=Path), help="The dataset; a new folder.")
@click.option("--episodes", metavar="N", type=click.IntRange(min=1), default=100, show_default=True, help="How many.")
@click.option("--deterministic", is_flag=True, help="Act as in evaluations, in place of drawing actions.")
@click.option("--envs", metavar="N", type=click.IntRange(min=1), default=8, show_default=True, help="Side by side.")
@click.option("--seed", metavar="S", type=click.IntRange(min=0), default=0, show_default=True, help="Of all draws.")
@click.option("--trust", is_flag=True, help="Import the modules that the checkpoint names.")
def record(
    saved: Path, out: Path, episodes: int, deterministic: bool, envs: int, seed: int, trust: bool
) -> None:
    """Play whole episodes with a trained policy and write them as a dataset; print one JSON object."""
    from rlcore_offline.recording import record_run

    told = record_run(saved, out, episodes, explore=not deterministic, envs=envs, seed=seed, trust=trust)
    click.echo(json.dumps(told))
