"""``rlcore check``: the conformance kit on a part or a whole package."""

from __future__ import annotations

import sys

import click


@click.command()
@click.argument("target")
def check(target: str) -> None:
    """Check that TARGET keeps the contract of its kind, and say how to mend what does not.

    TARGET is the name of an environment, policy graph, optimizer or runtime, an import path of one
    (package.module:Class), or a distribution, whose parts are all checked. Problems are listed on stdout, each with
    its fix; the exit code is 1 where there are any.
    """
    from rlcore.testing.kit.target import examine_target

    reports = examine_target(target)
    for report in reports:
        click.echo(str(report))
    sys.exit(0 if all(report.ok for report in reports) else 1)
