"""``rlcore train``."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from rlcore.cli.progress import logs_said, say, watcher
from rlcore.cli.running import run_to_the_end
from rlcore.config import RunConfig
from rlcore.config_text import parse_settings, read_config
from rlcore.resolve import resolve
from rlcore.trainer import Trainer

#: Where run folders go that nobody gave a place.
RUNS = Path("runs")


@click.command()
@click.argument("recipe", metavar="NAME_OR_YAML")
@click.option("--env", metavar="ENV", help="The environment, such as CartPole-v1 or provider:id.")
@click.option("--framework", metavar="F", help="The framework of the policy graph.")
@click.option("--optimizer", metavar="O", help="Another optimizer than the recipe's.")
@click.option("--evaluators", metavar="N", type=click.IntRange(min=0), help="How many evaluators collect experience.")
@click.option("--runtime", metavar="R", help="What runs the evaluators: inline, ray, sim ...")
@click.option("--address", metavar="HOST:PORT", help="The head node of a Ray cluster to run on, or 'auto'.")
@click.option("--seed", metavar="S", type=click.IntRange(min=0), help="The same seed gives the same run.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Any setting, as policy.gamma=0.98.")
@click.option("--stop", metavar="KEY=VALUE", multiple=True, help="Stop once a row has this value or more.")
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), help="The run folder; it must not exist.")
@click.option("--checkpoint-every", metavar="N", type=click.IntRange(min=1), help="Iterations between checkpoints.")
@click.option(
    "--from", "start_from", metavar="CHECKPOINT", type=click.Path(path_type=Path), help="Start from its weights."
)
@click.option("--no-env-settings", is_flag=True, help="Leave out the recipe's settings for this environment.")
def train(
    recipe: str,
    env: str | None,
    framework: str | None,
    optimizer: str | None,
    evaluators: int | None,
    runtime: str | None,
    address: str | None,
    seed: int | None,
    settings: tuple[str, ...],
    stop: tuple[str, ...],
    out: Path | None,
    checkpoint_every: int | None,
    start_from: Path | None,
    no_env_settings: bool,
) -> None:
    """Train with the recipe NAME, or as a YAML file says, and print the result as one JSON object.

    It stops when any stop key is reached. Ctrl-C stops at the next safe point with a checkpoint, a second one at once.
    """
    named: dict[str, Any] = {
        "env": env,
        "framework": framework,
        "optimizer.name": optimizer,
        "evaluators.count": evaluators,
        "runtime.name": runtime,
        "runtime.address": address,
        "seed": seed,
        "checkpoints.every": checkpoint_every,
    }
    overrides = parse_settings(settings, "--set")
    overrides |= {f"stop.{key}": value for key, value in parse_settings(stop, "--stop").items()}
    overrides |= {key: value for key, value in named.items() if value is not None}
    if _is_file(recipe):
        config, source = read_config(recipe), recipe
    else:
        config, source = {"algorithm": recipe}, "command line"
    run = resolve(config, overrides=overrides, env_settings=not no_env_settings, source=source)
    out = out or default_folder(run.config)
    watch = watcher()
    with logs_said():
        trainer = Trainer(run, hooks=[watch], out=out, start_from=start_from)
    say(*run.provenance.lines(run.config), f"run folder: {out}")
    run_to_the_end(trainer, watch, out)


def _is_file(name: str) -> bool:
    """Whether a YAML file is meant: by its ending, or because it is one. Recipes are named without slashes."""
    return name.endswith((".yaml", ".yml")) or ("/" in name and ":" not in name) or Path(name).is_file()


def default_folder(config: RunConfig, runs: Path = RUNS) -> Path:
    """``runs/<algorithm>-<env>-<date and time>``, with a number behind it where that is taken."""
    name = f"{config.algorithm}-{config.env}-{datetime.now():%Y%m%d-%H%M%S}"
    first = runs / re.sub(r"[^\w.-]+", "-", name)
    folder, number = first, 1
    while folder.exists():
        number += 1
        folder = first.with_name(f"{first.name}-{number}")
    return folder
