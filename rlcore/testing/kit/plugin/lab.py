"""What the rules for plugins look at: an installed distribution, its metadata and its entry points."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from typing import Any

from rlcore import lookup_errors, plugin_check, registry
from rlcore.errors import UnknownPluginError
from rlcore.plugin_check import Finding
from rlcore.registry import KINDS, Plugin
from rlcore.testing.kit.report import Untested
from rlcore.testing.kit.rules import once

KERNEL = "rlcore"


class PluginLab:
    """A distribution by name. Raises ``UnknownPluginError`` where it is not installed.

    With ``parts`` it looks at these only.
    """

    case = ""

    def __init__(self, distribution: str, parts: Sequence[Plugin] | None = None) -> None:
        try:
            self._distribution = importlib.metadata.distribution(distribution)
        except importlib.metadata.PackageNotFoundError:
            known = {plugin.distribution or "" for plugin in registry.available()} - {""}
            hint = lookup_errors.did_you_mean(distribution, known)
            raise UnknownPluginError(f"no package '{distribution}' is installed{hint}") from None
        self._parts = parts

    @property
    def metadata(self) -> Any:
        """Its core metadata."""
        return self._distribution.metadata

    @property
    def name(self) -> str:
        """The distribution's name."""
        return str(self.metadata["Name"] or "")

    @property
    def version(self) -> str:
        """The distribution's version."""
        return str(self.metadata["Version"] or "")

    @property
    def requirements(self) -> list[str]:
        """What it requires, one line each."""
        return list(self._distribution.requires or [])

    @property
    def groups(self) -> dict[str, list[str]]:
        """The names of its entry points by group, of the groups whose names begin like the kernel's."""
        groups: dict[str, list[str]] = {}
        for entry_point in self._distribution.entry_points:
            if entry_point.group.startswith(f"{KERNEL}."):
                groups.setdefault(entry_point.group, []).append(entry_point.name)
        return groups

    @once
    def parts(self) -> list[Plugin]:
        """What it offers, of the kinds that there are."""
        if self._parts is not None:
            return list(self._parts)
        return [plugin for plugin in registry.available() if plugin.is_of(self.name)]

    @once
    def findings(self) -> list[Finding]:
        """Whether each part can be imported, tried in processes of their own."""
        return plugin_check.check(self.parts)

    def loaded(self, kind: str) -> dict[str, Any]:
        """The parts of a kind that can be imported, by name. ``Untested`` where there are none."""
        broken = {finding.plugin for finding in self.findings if finding.problem is not None}
        own = [plugin for plugin in self.parts if plugin.kind == kind and plugin not in broken]
        if not own:
            raise Untested(f"it offers no {KINDS[kind].label}")
        return {plugin.name: registry.load_plugin(plugin) for plugin in own}

    def begin(self) -> None:
        """Nothing to prepare."""

    def close(self) -> None:
        """Nothing is held."""
