"""Provenance: which source each setting of a run comes from, and which settings were left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rlcore.config import RunConfig
from rlcore.validation import shown


@dataclass
class Provenance:
    """Where the settings of a run come from.

    ``layers`` are the names of the sources, each overruling those before it. ``sources`` maps each dotted key that some
    layer set to the last layer that did; ``left_out`` maps those that were set and do not apply to the reason.
    """

    layers: list[str] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def leave_out(self, key: str, reason: str) -> None:
        """``key`` was set and does not apply."""
        self.sources.pop(key, None)
        self.left_out[key] = reason

    def keys_of(self, *sources: str) -> set[str]:
        """The dotted keys that hold because of one of ``sources``."""
        return {key for key, by in self.sources.items() if by in sources}

    def lines(self, config: RunConfig) -> list[str]:
        """A line for each layer, with the keys that hold because of it and their values in ``config``."""
        tree = config.to_tree()
        lines = []
        for source in dict.fromkeys(self.layers):
            keys = [key for key, by in self.sources.items() if by == source]
            if keys:
                lines.append(f"{source}: " + ", ".join(f"{key}={_value_at(tree, key)}" for key in keys))
        return lines + [f"not used: {key} ({reason})" for key, reason in self.left_out.items()]


def _value_at(tree: Any, key: str) -> str:
    """The value at a dotted key; the keys of a mapping may hold dots themselves."""
    if not isinstance(tree, Mapping):
        return shown(tree)
    if key in tree:
        return shown(tree[key])
    for name, below in tree.items():
        if key.startswith(f"{name}."):
            return _value_at(below, key[len(str(name)) + 1 :])
    return "default"
