"""``rlcore resume``."""

from __future__ import annotations

from pathlib import Path

import click

from rlcore.cli.progress import say, watcher
from rlcore.cli.running import run_to_the_end
from rlcore.config_text import parse_settings
from rlcore.results import RunFolder
from rlcore.trainer import Trainer


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--stop", metavar="KEY=VALUE", multiple=True, help="Replaces the stop keys that it names.")
@click.option("--runtime", metavar="R", help="Another runtime than before: inline, ray, sim ...")
@click.option("--address", metavar="HOST:PORT", help="The head node of a Ray cluster to run on, or 'auto'.")
@click.option("--trust", is_flag=True, help="Import the modules that the checkpoint names.")
def resume(run: Path, stop: tuple[str, ...], runtime: str | None, address: str | None, trust: bool) -> None:
    """Go on with the run folder RUN exactly where its last checkpoint was written.

    Prints the result as one JSON object, as train does.
    """
    RunFolder.open(run)
    overrides = {f"stop.{key}": value for key, value in parse_settings(stop, "--stop").items()}
    # An address is that of a Ray cluster, whatever the run was on before.
    elsewhere = {"runtime.name": runtime or ("ray" if address else None), "runtime.address": address}
    overrides |= {key: value for key, value in elsewhere.items() if value is not None}
    watch = watcher()
    trainer = Trainer.restore(run, hooks=[watch], overrides=overrides, trust=trust)
    say(f"going on after iteration {trainer.counters.iteration}, {trainer.counters.env_steps} environment steps")
    for evaluator, slots in trainer.restarts.items():
        say(
            f"evaluator {evaluator}: {len(slots)} environment{'s' * (len(slots) != 1)} could not be restored; "
            "their episodes begin anew"
        )
    run_to_the_end(trainer, watch, run)
