"""``rlcore doctor``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rlcore.doctor import Finding, Level, Section, examine, problems

#: What stands before a finding, and in which colour on a terminal.
MARKS = {Level.OK: ("  ", "green"), Level.NOTE: ("- ", "yellow"), Level.PROBLEM: ("! ", "red")}


@click.command()
def doctor() -> None:
    """Show what this machine can run: processors, memory, GPUs, packages and whether they load, and what to change.

    What is installed and does not work is marked with "!", and the exit code is 1 then; what could be better is marked
    with "-". Frameworks are not imported into this process: packages are tried in processes of their own.
    """
    terminal = sys.stdout.isatty()
    sections = []
    for section in examine():
        sections.append(section)
        if terminal:
            Console().print(_table(section))
        else:
            click.echo("\n".join(_lines(section)))
    found = problems(sections)
    click.echo(f"{found} problem{'s' * (found != 1)} found" if found else "no problems found")
    sys.exit(1 if found else 0)


def _lines(section: Section) -> list[str]:
    """For a file or a pipe: a line for each finding, indented ones for what goes on and for the advice."""
    lines = [section.title]
    for finding in section.findings:
        first, *more = [*finding.text.splitlines(), *_advice(finding)]
        lines += [f"  {MARKS[finding.level][0]}{first}", *(f"      {line}" for line in more)]
    return lines


def _advice(finding: Finding) -> Sequence[str]:
    return () if finding.advice is None else (f"-> {finding.advice}",)


def _table(section: Section) -> Table:
    """For a terminal."""
    table = Table(title=section.title, title_justify="left", title_style="bold", show_header=False, box=None)
    table.add_column(width=1)
    table.add_column(overflow="fold", ratio=3)
    table.add_column(overflow="fold", ratio=2, style="cyan")
    for finding in section.findings:
        mark, style = MARKS[finding.level]
        # Text, because a cause may hold what rich takes for markup.
        table.add_row(Text(mark.strip(), style), Text(finding.text), Text(finding.advice or ""))
    return table
