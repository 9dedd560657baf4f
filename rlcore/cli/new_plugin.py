"""``rlcore new-plugin``."""

from __future__ import annotations

from pathlib import Path

import click

from rlcore import scaffold
from rlcore.cli.progress import say


@click.command("new-plugin")
@click.argument("kind")
@click.argument("name")
def new_plugin(kind: str, name: str) -> None:
    r"""Write the folder NAME with a complete package that provides a part called NAME, and print its path.

    \b
    KIND: policy_graph env optimizer algorithm runtime hook command

    What is there works, and its tests pass: change it bit by bit. A policy graph's NAME is framework.graph, as in
    mine.pg; of a framework alone it is the graph pg.
    """
    place = scaffold.new_plugin(kind, name, Path())
    click.echo(place)
    say(f"next: cd {place} && pip install --editable '.[testing]' && python -m pytest")
