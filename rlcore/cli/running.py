"""What ``train`` and ``resume`` have in common: running a trainer to its end, and printing the result."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path

import click

from rlcore.cli import INTERRUPTED
from rlcore.cli.progress import LiveProgress, PlainProgress, say
from rlcore.results import RunFolder, is_run_folder
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
        except SystemExit as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            say(f"the run was ended by sys.exit({error.code!r}) in {frame.filename}:{frame.lineno}")
            raise
        except KeyboardInterrupt:
            say(_what_is_left(folder))
            raise
        finally:
            watch.close()
    click.echo(json.dumps({"run_folder": str(folder), **result}))
    if result["status"] == "interrupted":
        say(f"stopped; go on with: rlcore resume {folder}")
        sys.exit(INTERRUPTED)


def _what_is_left(folder: Path) -> str:
    """After a second Ctrl-C, which waits for nothing."""
    if not is_run_folder(folder):
        return "stopped before anything was learnt; nothing is left of the run"
    if RunFolder.open(folder).checkpoints().latest() is None:
        return f"stopped before the first checkpoint; {folder} has rows, and cannot go on"
    return f"stopped at once; go on from the last checkpoint with: rlcore resume {folder}"
