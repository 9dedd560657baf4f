"""The reports of single parts, whatever their kind: how a part that is known by name only is tried."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rlcore.algorithm import Algorithm
from rlcore.envs import EnvProvider
from rlcore.errors import UserError
from rlcore.policy_graph import PolicyGraph
from rlcore.policy_optimizer import PolicyOptimizer
from rlcore.registry import Plugin
from rlcore.runtime.base import Runtime
from rlcore.testing.kit.env import examine_env
from rlcore.testing.kit.env.lab import EnvLab
from rlcore.testing.kit.optimizer import examine_optimizer
from rlcore.testing.kit.optimizer.lab import optimizer_labs
from rlcore.testing.kit.plugin.lab import PluginLab
from rlcore.testing.kit.plugin.package import its_algorithms_fit_their_parts, its_hooks_listen_to_events
from rlcore.testing.kit.policy import examine_actor, examine_policy_graph
from rlcore.testing.kit.policy.cases import graph_labs
from rlcore.testing.kit.report import Finding, Report, check_excuses
from rlcore.testing.kit.rules import examine
from rlcore.testing.kit.runtime import examine_runtime
from rlcore.testing.kit.runtime.lab import RuntimeLab


def report_part(name: str, part: Any, excused: Mapping[str, str] | None = None) -> list[Report]:
    """The reports of one part, tried as it asks to be (``conformance``, ``examples``).

    Of a policy graph there are two, one of them its actor's; of an env provider one for each of its examples.
    ``excused`` is ``{rule: reason}`` of rules of any of them.
    """
    return _excused(_reports(name, part), excused or {})


def report_plugin(plugin: Plugin, part: Any, excused: Mapping[str, str] | None = None) -> list[Report]:
    """As :func:`report_part`, for an entry of an installed package: algorithms and hooks as well."""
    rule = {"algorithm": its_algorithms_fit_their_parts, "hook": its_hooks_listen_to_events}.get(plugin.kind)
    if rule is None:
        return report_part(plugin.name, part, excused)
    lab = PluginLab(str(plugin.distribution), [plugin])
    return _excused([examine(f"{plugin.kind} {plugin.name}", [rule], [lab])], excused or {})


def _reports(name: str, part: Any) -> list[Report]:
    own = part if inspect.isclass(part) else object
    if issubclass(own, Algorithm):
        raise UserError(f"'{name}' is a recipe, which is checked by its name or with its package once it is installed")
    if issubclass(own, PolicyGraph):
        labs = graph_labs(own)
        return [_called(name, examine_policy_graph(labs)), _called(name, examine_actor(labs))]
    if issubclass(own, PolicyOptimizer):
        return [_called(name, examine_optimizer(optimizer_labs(own)))]
    if issubclass(own, Runtime):
        return [_called(name, examine_runtime(RuntimeLab(own)))]
    if issubclass(own, EnvProvider):
        return [examine_env(EnvLab(f"{name}:{env_id}")) for env_id in own.examples] or [_no_examples(name)]
    return [_called(name, examine_env(EnvLab(part)))]


def _no_examples(name: str) -> Report:
    reason = f"it names no examples; check one of its environments, '{name}:ID', or set EnvProvider.examples"
    return Report(f"env provider {name}", (Finding("its_examples_keep_all_rules", untested=reason),), {})


def _called(name: str, report: Report) -> Report:
    """The report, called after the part's name."""
    kind, _, _ = report.target.rpartition(" ")
    return replace(report, target=f"{kind} {name}")


def _excused(reports: list[Report], excused: Mapping[str, str]) -> list[Report]:
    """The reports, each with those of the excuses that are about its rules."""
    rules = [{finding.rule for finding in report.findings} for report in reports]
    check_excuses(excused, set().union(*rules))
    return [
        replace(report, excused={rule: reason for rule, reason in excused.items() if rule in own})
        for report, own in zip(reports, rules, strict=True)
    ]
