"""The wording of lookup errors: what was asked, the closest name, what is installed from where, what to install."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Protocol

from rlcore.errors import AmbiguousPluginError, UnknownPluginError
from rlcore.known import framework_of, names_of
from rlcore.requirements import provider_of


class Provided(Protocol):
    """A name and who provides it; ``distribution`` is None where the running program registered it."""

    @property
    def name(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def distribution(self) -> str | None: ...
    @property
    def source(self) -> str: ...


def closest(name: str, names: Iterable[str]) -> str | None:
    """The one of the other ``names`` that was probably meant, or None. Case counts for looking up, not for guessing."""
    by_lower = {known.lower(): known for known in names if known != name}
    wanted = name.lower()
    for lower, known in by_lower.items():
        if lower == wanted or lower.endswith("." + wanted):
            return known
    near = difflib.get_close_matches(wanted, by_lower, n=1)
    return by_lower[near[0]] if near else None


def did_you_mean(name: str, names: Iterable[str], before: str = "; ") -> str:
    """``"; did you mean 'x'?"``, or nothing where no name is close."""
    near = closest(name, names)
    return f"{before}did you mean '{near}'?" if near else ""


def by_source(plugins: Sequence[Provided]) -> str:
    """``"a, b (package 1.0); c (other 2.0)"``"""
    groups: dict[str, list[str]] = {}
    for plugin in plugins:
        groups.setdefault(plugin.source, []).append(plugin.name)
    return "; ".join(f"{', '.join(names)} ({source})" for source, names in groups.items())


def unknown(kind: str, label: str, name: str, owner: str, installed: Sequence[Provided]) -> UnknownPluginError:
    """The error for a name that nothing provides; ``owner`` is the distribution that was asked for, or empty."""
    providers = [plugin for plugin in installed if plugin.name == name]
    if owner and providers:
        others = f"{sources(providers)} {'do' if len(providers) > 1 else 'does'}"
        return UnknownPluginError(f"'{owner}' provides no {label} '{name}'; {others}")
    asked = f"'{name}@{owner}'" if owner else f"'{name}'"
    names = [plugin.name for plugin in installed]
    ours = names_of(kind)
    lines = [f"unknown {label} {asked}{did_you_mean(name, names)}"]
    lines.append(f"installed: {by_source(installed) or 'none'}")
    if name in ours and name not in names:
        lines.append(f"{ours[name]} provides it: {install_line(ours[name])}")
    elif closest(name, names) is None and (near := closest(name, ours)):
        lines.append(f"{ours[near]} provides '{near}': {install_line(ours[near])}")
    return UnknownPluginError("\n".join(lines))


def not_in(framework: str, graph: str, graphs: Sequence[str], installed: Sequence[str]) -> UnknownPluginError:
    """The error for a policy graph that a framework lacks which has other ``graphs``: where it is ``installed``, and
    what provides it elsewhere. Another graph would be another algorithm, and is not what was meant."""
    lines = [f"framework '{framework}' has no policy graph '{graph}' (it has: {', '.join(graphs)})"]
    if installed:
        lines.append(f"'{graph}' is installed in: {', '.join(installed)}")
    for name, distribution in names_of("policy_graph").items():
        if name.partition(".")[2] == graph and framework_of(name) not in installed:
            lines.append(f"{distribution} provides '{name}': {install_line(distribution)}")
    return UnknownPluginError("\n".join(lines))


def what_is_missing(error: BaseException, distribution: str, target: str) -> str:
    """``"; pip install tensorflow"`` where importing ``target`` of ``distribution`` failed for a module of another
    package that is not installed, else nothing. Where metadata does not say who provides the module, its name alone."""
    module = error.name if isinstance(error, ModuleNotFoundError) else None
    # A missing part of a package that is there, or of the plugin's own, is a fault that no other package mends.
    if not module or "." in module or module == re.split("[.:]", target)[0]:
        return ""
    provider = provider_of(module, distribution)
    return f"; {install_line(provider)}" if provider else f"; install what provides '{module}'"


def install_line(distribution: str) -> str:
    """The command that installs a package."""
    return f"pip install {distribution}"


def ambiguous(label: str, name: str, matches: Sequence[Provided]) -> AmbiguousPluginError:
    """The error for a name that more than one package, or a package and the running program, provide."""
    claims = " and ".join(f"{plugin.source} ({plugin.target})" for plugin in matches)
    owners = list(dict.fromkeys(plugin.distribution for plugin in matches if plugin.distribution))
    advice = []
    if len(owners) > 1 or len(owners) < len(matches):
        advice.append("ask for " + " or ".join(f"'{name}@{owner}'" for owner in owners))
    if any(plugin.distribution is None for plugin in matches):
        advice.append("register yours under another name")
    elif len(owners) == 1:
        advice = [f"{owners[0]} has to give them different names"]
    return AmbiguousPluginError(f"{label} '{name}' is provided by {claims}; {', or '.join(advice)}")


def sources(plugins: Sequence[Provided]) -> str:
    """``"package 1.0 and other 2.0"``"""
    return " and ".join(dict.fromkeys(plugin.source for plugin in plugins))
