"""Which runtime a config names and what it is told: a name alone, or a name with settings beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlcore import registry
from rlcore.config import RuntimeSettings, spelt_out
from rlcore.config_text import nested
from rlcore.validation import validate_plain

if TYPE_CHECKING:
    from rlcore.runtime.base import RuntimeConfig


def with_runtime_spelt_out(settings: Mapping[str, Any]) -> dict[str, Any]:
    """``settings`` with ``runtime: ray`` as ``runtime: {name: ray}``, which other layers can be merged with."""
    return {key: spelt_out(value) if key == "runtime" else value for key, value in settings.items()}


def nested_overrides(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """``{dotted key: value}`` as a layer of settings."""
    named = {key for key, value in overrides.items() if key == "runtime" and isinstance(value, str)}
    return nested({"runtime.name" if key in named else key: value for key, value in overrides.items()})


def choose_runtime(merged: dict[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Settings belong to the runtime that they were given for: another name in ``settings`` drops those in ``merged``.

    Returns the keys of what was dropped.
    """
    before, section = merged.get("runtime"), settings.get("runtime")
    if not isinstance(before, Mapping) or not isinstance(section, Mapping):
        return []
    if section.get("name") in (None, before.get("name")) or before.get("name") is None:
        return []
    del merged["runtime"]
    return [key for key in before if key != "name"]


def runtime_config(settings: RuntimeSettings) -> RuntimeConfig:
    """The ``Config`` of the runtime that a config names.

    Raises ``PluginError`` for an unknown one and ``ConfigError`` for settings that it does not know.
    """
    config_type = registry.load("runtime", str(settings.name)).Config
    return validate_plain(config_type, settings.settings, "runtime", beside=["name"])
