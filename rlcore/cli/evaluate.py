"""``rlcore evaluate``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from rlcore.evaluate_saved import evaluate_saved


@click.command()
@click.argument("saved", metavar="RUN_OR_CHECKPOINT", type=click.Path(path_type=Path))
@click.option("--episodes", metavar="N", type=click.IntRange(min=1), help="How many; else as the run's config says.")
@click.option("--video", metavar="DIR", type=click.Path(path_type=Path), help="A folder for a video of each episode.")
@click.option("--framework", metavar="F", help="Act with the policy graph of this framework.")
@click.option("--trust", is_flag=True, help="Import the modules that the checkpoint names.")
def evaluate(saved: Path, episodes: int | None, video: Path | None, framework: str | None, trust: bool) -> None:
    """Play whole episodes with a trained policy, deterministically, and print one JSON object.

    Of a run its last checkpoint is taken; the best one is RUN/checkpoints/best.
    """
    result = evaluate_saved(saved, episodes, framework=framework, video=video, trust=trust)
    click.echo(json.dumps(result.to_tree()))
