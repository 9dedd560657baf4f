"""``rlcore plugins``: what is installed, from which package, and what is broken."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rlcore import lookup_errors, plugin_check, registry
from rlcore.errors import UnknownPluginError
from rlcore.known import KNOWN
from rlcore.plugin_check import Finding
from rlcore.registry import KINDS, Plugin


class _KindsOrShow(click.Group):
    """A group that also answers to the name of each kind, and says which there are for any other word."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None:
            registry.kind_named(args[0])
        return super().resolve_command(ctx, args)


_no_check = click.option("--no-check", is_flag=True, help="Read metadata only, and do not try the imports.")


@click.group(cls=_KindsOrShow, invoke_without_command=True, subcommand_metavar="[KIND | show NAME]")
@_no_check
@click.pass_context
def plugins(ctx: click.Context, no_check: bool) -> None:
    r"""List the installed plugins, of all kinds or of one KIND.

    \b
    Columns: kind, name, package, version, status. Each import is tried in a
    process of its own, so that broken plugins are listed with the cause.
    Kinds: policy_graph env optimizer algorithm runtime hook command
    """
    if ctx.invoked_subcommand is None:
        _list(registry.available(), no_check)


@plugins.command()
@click.argument("name")
def show(name: str) -> None:
    """Show one plugin, by NAME or NAME@PACKAGE: where it comes from and whether it can be imported."""
    for number, finding in enumerate(plugin_check.check(_named(name))):
        if number:
            click.echo()
        _write([[field, value] for field, value in _details(finding) if value], [])


def _kind_command(kind: str) -> click.Command:
    @click.command(kind, hidden=True, help=f"List the installed plugins of the kind {kind}.")
    @_no_check
    @click.pass_context
    def listing(ctx: click.Context, no_check: bool) -> None:
        _list(registry.available(kind), no_check or (ctx.parent is not None and ctx.parent.params["no_check"]))

    return listing


for _kind in KINDS:
    plugins.add_command(_kind_command(_kind))


def _list(found: Sequence[Plugin], no_check: bool) -> None:
    findings = [Finding(plugin) for plugin in found] if no_check else plugin_check.check(found)
    claims = Counter((plugin.kind, plugin.name) for plugin in found)
    rows = []
    for finding in findings:
        plugin = finding.plugin
        status = "not checked" if no_check else _status(finding)
        if claims[plugin.kind, plugin.name] > 1:
            status += f"; the name is taken twice, ask for {plugin.name}@{plugin.distribution}"
        rows.append([plugin.kind, plugin.name, plugin.distribution or "", plugin.version or "", status])
    if not rows:
        click.echo("no plugins are installed", err=True)
    _write(rows, ["kind", "name", "package", "version", "status"])


def _named(name: str) -> list[Plugin]:
    """The plugins of any kind with that name; ``UnknownPluginError`` where there are none."""
    everything = registry.available()
    plain, _, owner = name.partition("@")
    matches = [plugin for plugin in everything if plugin.name == plain and (not owner or plugin.is_of(owner))]
    if matches:
        return matches
    ours = {known: package for package, parts in KNOWN.items() for names in parts.values() for known in names}
    hint = lookup_errors.did_you_mean(plain, [plugin.name for plugin in everything if plugin.name != plain])
    others = [plugin for plugin in everything if plugin.name == plain]
    lines = [f"no plugin '{name}' is installed" + (f"; {lookup_errors.sources(others)} has one" if others else hint)]
    if plain in ours and not others:
        lines.append(f"{ours[plain]} provides it: {lookup_errors.install_line(ours[plain])}")
    raise UnknownPluginError("\n".join(lines))


def _details(finding: Finding) -> list[tuple[str, str]]:
    plugin = finding.plugin
    return [
        ("kind", plugin.kind),
        ("name", plugin.name),
        ("package", plugin.distribution or ""),
        ("version", plugin.version or ""),
        ("target", plugin.target),
        ("status", _status(finding)),
        ("where", finding.where or ""),
        ("summary", finding.summary or ""),
    ]


def _status(finding: Finding) -> str:
    return "ok" if finding.problem is None else f"broken: {finding.problem}"


def _write(rows: Sequence[Sequence[str]], header: Sequence[str]) -> None:
    """A table on a terminal, else a line of fields with tabs between them for each row."""
    if not sys.stdout.isatty():
        for row in rows:
            click.echo("\t".join(row))
        return
    table = Table(box=None, show_header=bool(header), pad_edge=False)
    for column in header or rows[0]:
        table.add_column(column, overflow="fold")
    for row in rows:
        # Text, because a cause may hold what rich takes for markup.
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
