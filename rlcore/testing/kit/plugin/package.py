"""Rules about an installed plugin as a package: its metadata, and that everything it names is there."""

from __future__ import annotations

import importlib.metadata
import inspect
import re
from collections import Counter
from collections.abc import Iterator

from rlcore import lookup_errors, registry
from rlcore.envs import EnvProvider
from rlcore.errors import PluginError, UnknownPluginError, UserError
from rlcore.hooks import Hooks
from rlcore.registry import KINDS
from rlcore.requirements import canonical
from rlcore.resolve import resolve
from rlcore.testing.kit.plugin.lab import KERNEL, PluginLab
from rlcore.testing.kit.report import Fault, Untested
from rlcore.testing.kit.rules import describe
from rlcore.version_bounds import bounds_on, has_both_ends, holds

#: An id that no provider and no recipe knows.
NOWHERE = "No-Such-Environment-v0"


def its_metadata_is_complete(lab: PluginLab) -> Iterator[Fault]:
    """The package says its name, version, what it is, its licence, and which Python it needs."""
    metadata = lab.metadata
    fields = {
        "Name": metadata["Name"],
        "Version": metadata["Version"],
        "Summary": metadata["Summary"],
        "Requires-Python": metadata["Requires-Python"],
        "License": metadata["License-Expression"] or metadata["License"] or _licence_classifier(metadata),
    }
    for name, value in fields.items():
        if not value or value == "UNKNOWN":
            yield Fault(f"its metadata has no {name}", f"set it in pyproject.toml ({_KEYS[name]})")


_KEYS = {
    "Name": "project.name",
    "Version": "project.version",
    "Summary": "project.description",
    "Requires-Python": "project.requires-python",
    "License": "project.license",
}


def _licence_classifier(metadata: importlib.metadata.PackageMetadata) -> str:
    return next((line for line in metadata.get_all("Classifier") or [] if line.startswith("License ::")), "")


def it_asks_for_one_minor_of_the_kernel(lab: PluginLab) -> Iterator[Fault]:
    """It requires rlcore from the minor that it was written for to the next one, and what is installed fits."""
    if canonical(lab.name) == KERNEL:
        raise Untested("it is the kernel")
    installed = importlib.metadata.version(KERNEL)
    major, minor = [*installed.split("."), "0"][:2]
    fix = f"require '{KERNEL}>={major}.{minor},<{major}.{int(minor) + 1}'"
    bounds = bounds_on(KERNEL, lab.requirements)
    if bounds is None:
        yield Fault(f"it does not require {KERNEL}", fix)
    elif not has_both_ends(bounds):
        said = ",".join(f"{operator}{'.'.join(map(str, own))}" for operator, own in bounds)
        yield Fault(f"it requires {KERNEL}{said}, which is open on one side", fix)
    elif not holds(bounds, installed):
        yield Fault(f"it does not take {KERNEL} {installed}, which is installed", fix)


def it_offers_something(lab: PluginLab) -> Iterator[Fault]:
    """It has entry points, in the groups that there are and in no others that look like them."""
    known = {kind.group for kind in KINDS.values()}
    for group in lab.groups:
        if group not in known:
            hint = lookup_errors.did_you_mean(group, known)
            yield Fault(f"there is no group '{group}'{hint}", f"use one of {', '.join(sorted(known))}")
    if not lab.parts:
        yield Fault("it offers nothing", f'add [project.entry-points."{KERNEL}.optimizers"] or another group')


def its_names_can_be_asked_for(lab: PluginLab) -> Iterator[Fault]:
    """Each name is one word without '@' and ':', nobody else's, and of policy graphs 'framework.graph'."""
    everything = registry.available()
    twice = Counter((plugin.kind, plugin.name) for plugin in lab.parts)
    for plugin in lab.parts:
        what = f"{KINDS[plugin.kind].label} '{plugin.name}'"
        if not re.fullmatch(r"[^\s@:]+", plugin.name):
            yield Fault(f"{what} cannot be asked for by that name", "leave out spaces, '@' and ':'")
        elif plugin.kind == "policy_graph" and not re.fullmatch(r"\w+(\.\w+)+", plugin.name):
            yield Fault(f"{what} names no framework", "call it 'framework.graph', so that algorithms find it")
        others = [one.source for one in everything if (one.kind, one.name) == (plugin.kind, plugin.name)]
        others = [source for source in others if source != plugin.source]
        if others or twice[plugin.kind, plugin.name] > 1:
            by = f"also provided by {', '.join(others)}" if others else "provided twice"
            yield Fault(f"{what} is {by}", "give it a name of its own")


def its_parts_can_be_imported(lab: PluginLab) -> Iterator[Fault]:
    """What every entry point names can be imported, and is of its kind."""
    for finding in lab.findings:
        if finding.problem is not None:
            plugin = finding.plugin
            where = f" ({finding.where})" if finding.where else ""
            yield Fault(
                f"{KINDS[plugin.kind].label} '{plugin.name}' cannot be had: {finding.problem}{where}",
                f"see to it that {plugin.target} imports with what the package requires, and is what its group says",
            )


def its_parts_say_what_they_are(lab: PluginLab) -> Iterator[Fault]:
    """The docstring of every part begins with a line that says what it is."""
    for finding in lab.findings:
        if finding.problem is None and not finding.summary:
            plugin = finding.plugin
            yield Fault(
                f"{KINDS[plugin.kind].label} '{plugin.name}' has no docstring",
                f"write one for {plugin.target}; 'rlcore plugins show' prints its first line",
            )


def its_algorithms_fit_their_parts(lab: PluginLab) -> Iterator[Fault]:
    """Every recipe resolves: with each framework that has its graph, each optimizer and environment it names."""
    for name, recipe in lab.loaded("algorithm").items():
        missing = [own for own in ("policy_graph", "optimizer") if not isinstance(getattr(recipe, own, None), str)]
        if missing:
            yield Fault(f"algorithm '{name}' names no {' and no '.join(missing)}", "set both in the class")
            continue
        for framework in registry.frameworks(recipe.policy_graph):
            for optimizer in sorted({recipe.optimizer, *recipe.optimizers}):
                for env in (NOWHERE, *recipe.settings):
                    settings = {"algorithm": name, "framework": framework, "env": env}
                    try:
                        resolve(settings, overrides={"optimizer.name": optimizer})
                    except UserError as error:
                        on = f" in {env}" if env != NOWHERE else ""
                        yield Fault(
                            f"algorithm '{name}' with {framework} and {optimizer}{on}: {' '.join(str(error).split())}",
                            "use the keys and values that the parts know, and names that are installed with them",
                        )


def its_providers_refuse_unknown_ids(lab: PluginLab) -> Iterator[Fault]:
    """An id that an env provider does not have is an UnknownPluginError that names it."""
    for name, provider in lab.loaded("env").items():
        if not (inspect.isclass(provider) and issubclass(provider, EnvProvider)):
            continue
        try:
            provider().make(NOWHERE, 1, {})
        except UnknownPluginError as error:
            if NOWHERE not in str(error):
                yield Fault(f"provider '{name}' refuses an id without naming it: {error}", _UNKNOWN)
        except Exception as error:
            yield Fault(f"provider '{name}' raised {describe(error)} for an id that it does not have", _UNKNOWN)
        else:
            yield Fault(f"provider '{name}' made an environment of an id that it does not have", _UNKNOWN)


_UNKNOWN = "raise rlcore.envs.unknown_env(provider, id, ids that there are)"


def its_hooks_listen_to_events(lab: PluginLab) -> Iterator[Fault]:
    """Every hook implements events that there are, with arguments that they have."""
    for name in lab.loaded("hook"):
        try:
            Hooks().add(f"{name}@{lab.name}")
        except PluginError as error:
            yield Fault(" ".join(str(error).split()), "use the events and arguments of rlcore.hooks.Events")
