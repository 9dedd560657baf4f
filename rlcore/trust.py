"""Names of code in a checkpoint. Reading one imports nothing; whoever would import what it names asks here first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rlcore import registry
from rlcore.config import ResolvedPolicy, RunConfig, marked_objects
from rlcore.envs import imports_module, settings_imports
from rlcore.errors import CheckpointError

#: ``{dotted key: import path}`` of a checkpoint's settings.
ImportedNames = dict[str, str]


def env_names(config: RunConfig) -> ImportedNames:
    """What playing episodes in the run's environment would import."""
    names = {}
    if isinstance(config.env, str) and imports_module(config.env):
        names["env"] = config.env
    if isinstance(config.policy_of, str):
        names["policy_of"] = config.policy_of
    for key, path in settings_imports(config.env, config.env_settings).items():
        names[f"env_settings.{key}"] = path
    return names


def graph_names(policy_id: str, settings: ResolvedPolicy, framework: str | None = None) -> ImportedNames:
    """What building a policy's graph would import; with ``framework``, a graph of the same name in that one."""
    at = f"policies.{policy_id}"
    names = dict(_import_paths(settings.model, f"{at}.model"))
    if framework is None and registry.is_import_path(settings.graph):
        names[f"{at}.graph"] = settings.graph
    return names


def imported_names(config: RunConfig, policies: Mapping[str, ResolvedPolicy]) -> ImportedNames:
    """What going on with the run would import: all of the above, its runtime and its optimizers."""
    names = env_names(config)
    if config.runtime.name is not None and registry.is_import_path(config.runtime.name):
        names["runtime"] = config.runtime.name
    for policy_id, settings in policies.items():
        names |= graph_names(policy_id, settings)
        if registry.is_import_path(settings.optimizer.name):
            names[f"policies.{policy_id}.optimizer.name"] = settings.optimizer.name
        names |= dict(_import_paths(settings.optimizer.settings, f"policies.{policy_id}.optimizer"))
    return names


def _import_paths(tree: Any, at: str) -> Iterator[tuple[str, str]]:
    """Every import path in a tree of settings: models and optimizers may name code under any key."""
    if isinstance(tree, Mapping):
        for key, part in tree.items():
            yield from _import_paths(part, f"{at}.{key}")
    elif isinstance(tree, list):
        for i, part in enumerate(tree):
            yield from _import_paths(part, f"{at}.{i}")
    elif isinstance(tree, str) and registry.is_import_path(tree) and not tree.rpartition(":")[2].isdigit():
        # A device such as cuda:0 is no import path: what stands behind the colon is no name.
        yield at, tree


def check_trust(source: str, names: Mapping[str, str], trust: bool) -> None:
    """``CheckpointError`` where there are ``names`` and nobody trusts ``source``, which has them."""
    if names and not trust:
        listed = ", ".join(f"{key}={path}" for key, path in names.items())
        raise CheckpointError(
            f"{source} names code to import: {listed}; nothing was loaded, "
            "say that you trust it with --trust (in Python trust=True)"
        )


def check_objects(folder: Path, config: Mapping[str, Any]) -> None:
    """``CheckpointError`` for a config with Python objects that could not be written down."""
    missing = marked_objects(config)
    if missing:
        raise CheckpointError(
            f"checkpoint {folder}: {', '.join(missing)} was given as a Python object that no import path leads to; "
            f"give it anew, as overrides={{{missing[0]!r}: ...}}"
        )
