"""The rules for plugins, and :func:`check_plugin`, which applies them, and those of every part, to a whole package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlcore import registry
from rlcore.errors import UserError
from rlcore.testing.kit.plugin import package
from rlcore.testing.kit.plugin.lab import PluginLab
from rlcore.testing.kit.plugin.parts import report_plugin
from rlcore.testing.kit.report import ConformanceError, Report
from rlcore.testing.kit.rules import Rule, examine

PLUGIN_RULES: Sequence[Rule[PluginLab]] = (
    package.its_metadata_is_complete,
    package.it_asks_for_one_minor_of_the_kernel,
    package.it_offers_something,
    package.its_names_can_be_asked_for,
    package.its_parts_can_be_imported,
    package.its_parts_say_what_they_are,
    package.its_algorithms_fit_their_parts,
    package.its_providers_refuse_unknown_ids,
    package.its_hooks_listen_to_events,
)

#: Kinds whose parts the rules of the package have looked at in full.
_IN_PACKAGE = ("algorithm", "hook")


def check_plugin(distribution: str, *, excused: Mapping[str, Mapping[str, str]] | None = None) -> list[Report]:
    """Holds an installed package to what plugins promise: its metadata, its entry points, and each of its parts.

    Parts are tried as they ask to be (``PolicyGraph.conformance``, ``PolicyOptimizer.conformance``,
    ``EnvProvider.examples``). ``excused`` is ``{name of a part, or of the package: {rule: reason}}``. Gives the
    reports, the package's first.

    Raises ``ConformanceError`` listing every problem with its fix, ``UnknownPluginError`` where it is not installed.
    """
    reports = examine_plugin(distribution, excused)
    if not all(report.ok for report in reports):
        raise ConformanceError(*reports)
    return reports


def examine_plugin(distribution: str, excused: Mapping[str, Mapping[str, str]] | None = None) -> list[Report]:
    """The reports of the package and of its parts."""
    lab, excuses = PluginLab(distribution), dict(excused or {})
    reports = [examine_package(lab, excuses.pop(lab.name, None))]
    for finding in lab.findings:
        plugin = finding.plugin
        own = excuses.pop(plugin.name, None)
        if finding.problem is None and plugin.kind not in _IN_PACKAGE:
            reports += report_plugin(plugin, registry.load_plugin(plugin), own)
    if excuses:
        names = ", ".join(sorted(excuses))
        raise UserError(f"excused are rules of {names}, which {lab.name} does not have")
    return reports


def examine_package(lab: PluginLab, excused: Mapping[str, str] | None = None) -> Report:
    """The report of the rules about the package itself."""
    return examine(f"package {lab.name}", PLUGIN_RULES, [lab], excused)
