"""What ``train`` and ``resume`` have in common: running a trainer to its end, and printing the result."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from rlcore.cli import INTERRUPTED
from rlcore.cli.progress import LiveProgress, PlainProgress, say
from rlcore.trainer import Trainer


def run_to_the_end(trainer: Trainer, watch: PlainProgress | LiveProgress, folder: Path) -> None:
    """Trains, and prints the result with the run folder as one JSON object on stdout.

    Exits with code 130 where Ctrl-C ended it, as shells expect.
    """
    if not trainer.config.stop:
        say("no stop key is given: it trains until Ctrl-C")
    with trainer:
        try:
            result = trainer.train()
        finally:
            watch.close()
    click.echo(json.dumps({"run_folder": str(folder), **result}))
    if result["status"] == "interrupted":
        say(f"stopped; go on with: rlcore resume {folder}")
        sys.exit(INTERRUPTED)
