"""``rlcore estimate``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click


@click.command()
@click.argument("saved", metavar="RUN_OR_CHECKPOINT", type=click.Path(path_type=Path))
@click.argument("dataset", metavar="DATASET")
@click.option("--policy", metavar="ID", help="Which one, where the run has several.")
@click.option("--gamma", metavar="G", type=click.FloatRange(0.0, 1.0), help="The discount; else the policy's own.")
@click.option("--seed", metavar="S", type=click.IntRange(min=0), default=0, show_default=True, help="Of the intervals.")
@click.option("--trust", is_flag=True, help="Import the modules that the checkpoint names.")
def estimate(
    saved: Path, dataset: str, policy: str | None, gamma: float | None, seed: int, trust: bool
) -> None:
    """Estimate what a trained policy would return from episodes that another one played; print one JSON object.

    By importance sampling, ordinary, weighted, and by decision, with 95 % intervals. DATASET is a folder that rlcore
    record wrote, with actions drawn.
    """
    from rlcore_offline.judging import judge

    found = judge(saved, dataset, policy=policy, gamma=gamma, seed=seed, trust=trust)
    click.echo(json.dumps(asdict(found), allow_nan=False))
