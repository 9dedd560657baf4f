"""Configs as text: reading and writing YAML, and the ``key=value`` of the command line. It checks no keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from rlcore.errors import ConfigError
from rlcore.validation import shown


class _Loader(yaml.SafeLoader):
    """YAML with the numbers of YAML 1.2 (``3e-4`` is one) in which no key may stand twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for i, key in enumerate(keys):
            if key in keys[:i]:
                mark = node.value[i][0].start_mark
                raise yaml.constructor.ConstructorError(None, None, f"the key '{key}' stands twice", mark)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$"),
    list("-+.0123456789"),
)


def read_config(path: Path | str) -> dict[str, Any]:
    """The settings in a YAML file, not yet checked. ``ConfigError`` where it cannot be read or is no YAML mapping."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the config {path}: {error}") from error
    return parse_yaml(text, str(path))


def parse_yaml(text: str, name: str = "config") -> dict[str, Any]:
    """The settings in ``text``; ``name`` is what messages call it."""
    try:
        settings = yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{name} is not YAML: {_one_line(error)}") from error
    if settings is None:
        return {}
    if not isinstance(settings, dict):
        raise ConfigError(f"{name}: expected 'key: value' lines, found {shown(settings)}")
    wrong = [shown(key) for key in settings if not isinstance(key, str)]
    if wrong:
        raise ConfigError(f"{name}: keys should be texts, not {', '.join(wrong)}")
    return settings


def _one_line(error: yaml.YAMLError) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    return where + (problem or str(error).splitlines()[0])


def dump_yaml(tree: Mapping[str, Any]) -> str:
    """``tree`` as YAML in its own order."""
    return str(yaml.safe_dump(dict(tree), sort_keys=False, default_flow_style=None, allow_unicode=True, width=110))


def parse_settings(pairs: Iterable[str], option: str) -> dict[str, Any]:
    """``key=value`` texts as ``{dotted key: value}``, each value read as YAML; ``option`` is named in errors."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"{option} {pair}: expected key=value")
        try:
            settings[key.strip()] = yaml.load(text, _Loader)
        except yaml.YAMLError as error:
            raise ConfigError(f"{option} {pair}: {_one_line(error)}") from error
    return settings


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """``{"optimizer.name": "x"}`` as ``{"optimizer": {"name": "x"}}``.

    What follows ``stop.`` is one key, because keys of progress rows may hold dots. ``ConfigError`` where one key asks
    for a value and another for keys below it.
    """
    tree: dict[str, Any] = {}
    for dotted, value in settings.items():
        parts = dotted.split(".", 1) if dotted.startswith("stop.") else dotted.split(".")
        if not all(parts):
            raise ConfigError(f"{dotted}: a dotted key has a name between any two dots")
        node = tree
        for part in parts[:-1]:
            node = node.setdefault(part, {})
            if not isinstance(node, dict):
                raise ConfigError(f"{dotted}: '{part}' was set to {shown(node)} before")
        if isinstance(value, dict) and isinstance(node.get(parts[-1]), dict):
            node[parts[-1]].update(value)
        else:
            node[parts[-1]] = value
    return tree
