"""``rlcore tune``."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from rlcore.cli import INTERRUPTED
from rlcore.cli.progress import say
from rlcore.config_text import nested, parse_settings, read_config
from rlcore.errors import UserError
from rlcore.layers import merge
from rlcore_tune.config import SearchConfig, parse_search
from rlcore_tune.folder import is_search_folder

#: The exit code of a search that came to nothing.
FAILED = 1
#: Where searches go that nobody gave a place.
SEARCHES = Path("searches")


@click.command()
@click.argument("given", metavar="SEARCH", type=click.Path(path_type=Path))
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Any key of the file, as trials=8.")
@click.option("--seed", metavar="S", type=click.IntRange(min=0), help="The seed that those of the trials follow from.")
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), help="The search's folder; it must not exist.")
@click.option("--trust", is_flag=True, help="Import the modules that the folder of a search names.")
def tune(given: Path, settings: tuple[str, ...], seed: int | None, out: Path | None, trust: bool) -> None:
    """Search for the settings of any algorithm, as the YAML file SEARCH says.

    Where SEARCH is the folder of a search that was ended or killed, it goes on: trials that are over are not run again,
    the others go on from their last checkpoints. The table of trials goes to stderr, the best one as one JSON object to
    stdout, pictures into the folder.
    """
    # Ray Tune takes seconds to import, and what is wrong with the options is known before.
    if is_search_folder(given):
        if settings or seed is not None or out is not None:
            raise click.UsageError(f"{given} is a search that goes on as it was: give a YAML file for another one")
        from rlcore_tune.search import Search

        search, folder = Search.open(given, trust=trust), given
    else:
        config = _read(given, settings, seed)
        folder = out or default_folder(config)
        from rlcore_tune.search import Search

        search = Search.create(config, folder)
    say(f"search folder: {folder}")
    run_to_the_end(search, folder)


def _read(path: Path, settings: tuple[str, ...], seed: int | None) -> SearchConfig:
    if path.is_dir():
        raise UserError(f"there is no search in {path}, and no YAML file is named")
    given, changes = read_config(path), nested(parse_settings(settings, "--set"))
    if _scheduler_name(changes) not in (None, _scheduler_name(given)):
        # What was set for another scheduler is none of this one's.
        given.pop("scheduler", None)
    merge(given, changes)
    if seed is not None:
        given["seed"] = seed
    return parse_search(given)


def _scheduler_name(settings: Mapping[str, Any]) -> Any:
    scheduler = settings.get("scheduler")
    return scheduler.get("name") if isinstance(scheduler, Mapping) else scheduler


def run_to_the_end(search: object, folder: Path) -> None:
    """Runs the search, and shows what it has come to. Exits with code 130 where Ctrl-C ended it, with 1
    where every trial failed."""
    from rich.console import Console

    from rlcore_tune.pictures import draw
    from rlcore_tune.records import Status
    from rlcore_tune.report import summary, table
    from rlcore_tune.search import Search

    assert isinstance(search, Search)
    result = search.run(say)
    console = Console(stderr=True)
    if not console.is_terminal:
        # Lines of a file need not be folded.
        console = Console(stderr=True, width=200)
    console.print(table(result))
    if any(record.reports for record in result.trials):
        say(*(f"picture: {picture}" for picture in draw(result, search.folder.path)))
    found = summary(result, str(folder))
    if not result.interrupted:
        search.folder.finish(found)
    click.echo(json.dumps(found))
    if result.interrupted:
        say(f"stopped; go on with: rlcore tune {folder}")
        sys.exit(INTERRUPTED)
    if all(record.status is Status.FAILED for record in result.trials):
        say(f"error: every trial failed; what happened is in {folder / 'trials'}/*-error.txt")
        sys.exit(FAILED)


def default_folder(search: SearchConfig, searches: Path = SEARCHES) -> Path:
    """``searches/<algorithm>-<env>-<date and time>``, with a number behind it where that is taken."""
    first = searches / re.sub(
        r"[^\w.-]+", "-", f"{search.algorithm}-{search.env}-{datetime.now():%Y%m%d-%H%M%S}"
    )
    folder, number = first, 1
    while folder.exists():
        number += 1
        folder = first.with_name(f"{first.name}-{number}")
    return folder
