"""From what a user names to the reports about it: a part by its name, an environment, or a whole package."""

from __future__ import annotations

from typing import Any

from rlcore import lookup_errors, registry
from rlcore.envs import imports_module
from rlcore.errors import UnknownPluginError
from rlcore.registry import Plugin
from rlcore.testing.kit.env import examine_env
from rlcore.testing.kit.env.lab import EnvLab
from rlcore.testing.kit.plugin import examine_plugin
from rlcore.testing.kit.plugin.parts import report_part, report_plugin
from rlcore.testing.kit.report import Report


def examine_target(target: str) -> list[Report]:
    """The reports about ``target``.

    It is one of: the name of an installed part (``torch.ppo``, ``multi_gpu``, ``gym``), with ``@package`` where two
    have it; a distribution (``rlcore-sync``); an environment (``gym:CartPole-v1``, ``CartPole-v1``); an import path
    (``package.module:Class``) of any of these. Where several parts have one name all are tried.

    Raises ``UnknownPluginError`` where it is none of them, and what loading a part raises.
    """
    everything = registry.available()
    named = [plugin for plugin in everything if _is_called(plugin, target)]
    if named:
        return [report for plugin in named for report in report_plugin(plugin, registry.load_plugin(plugin))]
    if any(plugin.is_of(target) for plugin in everything):
        return examine_plugin(target)
    if imports_module(target):
        return _report_path(target, everything)
    return _report_env(target, everything)


def _is_called(plugin: Plugin, target: str) -> bool:
    name, _, owner = target.partition("@")
    return plugin.name == name and (not owner or plugin.is_of(owner))


def _report_path(path: str, everything: list[Plugin]) -> list[Report]:
    """Of a class by import path; what is none may be an id that importing the module registers."""
    try:
        part: Any = registry.import_object(path)
    except UnknownPluginError:
        return _report_env(path, everything)
    return report_part(path, part)


def _report_env(name: str, everything: list[Plugin]) -> list[Report]:
    lab = EnvLab(name)
    try:
        lab.build().close()
    except UnknownPluginError as error:
        known = [plugin.name for plugin in everything]
        known += list(dict.fromkeys(plugin.distribution for plugin in everything if plugin.distribution))
        hint = lookup_errors.did_you_mean(name, known)
        raise UnknownPluginError(
            f"there is no policy graph, optimizer, runtime or package '{name}'{hint}\nas an environment: {error}"
        ) from error
    return [examine_env(lab)]
