"""``rlcore doctor``."""

from __future__ import annotations

import click

from rlcore.doctor import Level, examine, problems

_MARKS = {Level.OK: "  ", Level.NOTE: "- ", Level.PROBLEM: "! "}


@click.command()
def doctor() -> None:
    """Show what this machine can run: processors, memory, GPUs, packages and whether they load, common problems.

    What will not work is marked with "!", what is good to know with "-".
    """
    sections = []
    for section in examine():
        sections.append(section)
        click.echo(section.title)
        for finding in section.findings:
            first, *more = finding.text.splitlines()
            click.echo("\n".join([f"  {_MARKS[finding.level]}{first}", *(f"      {line}" for line in more)]))
    found = problems(sections)
    click.echo(f"{found} problem{'s' * (found != 1)} found" if found else "no problems found")
