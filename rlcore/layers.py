"""Layers of settings, each over those before it: the recipe, its settings for an environment, YAML, the command line.

Three choices are more than merging key by key: another optimizer brings what the recipe lends to it, another runtime
drops the settings of the one before, and episodes and fragment replace each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rlcore.provenance import Provenance
from rlcore.runtime_choice import choose_runtime
from rlcore.validation import is_tree


@dataclass(frozen=True)
class Layer:
    """Settings from one source, in the shape of the config; sections may be incomplete."""

    source: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Lent:
    """What a recipe lends: layers of settings, and layers of ``{optimizer name: settings}``."""

    layers: list[Layer]
    optimizers: list[Layer]

    def for_optimizer(self, name: str) -> dict[str, Any]:
        """The settings that it lends to the optimizer ``name``."""
        merged: dict[str, Any] = {}
        for layer in self.optimizers:
            merge(merged, layer.settings.get(name, {}))
        return merged


def merge_layers(lent: Lent, user: list[Layer]) -> tuple[dict[str, Any], Provenance]:
    """All settings as one tree, and which layer each comes from."""
    merged: dict[str, Any] = {}
    provenance = Provenance([layer.source for layer in lent.layers + user])
    for layer in lent.layers + user:
        _choose_optimizer(merged, layer, lent, provenance)
        _choose_collection(merged, layer, provenance)
        for key in choose_runtime(merged, layer.settings):
            provenance.leave_out(f"runtime.{key}", "given for another runtime")
        merge(merged, layer.settings)
        provenance.sources.update(dict.fromkeys(_leaves(layer.settings), layer.source))
    for key in [key for key, value in _section(merged, "stop").items() if value is None]:
        provenance.sources.pop(f"stop.{key}", None)
    return merged, provenance


def merge(low: dict[str, Any], high: Mapping[str, Any]) -> None:
    """Puts ``high`` over ``low``, mapping by mapping; ``low`` changes, and shares no mapping with ``high``."""
    for key, value in high.items():
        if is_tree(value):
            below = low.get(key)
            low[key] = dict(below) if is_tree(below) else {}
            merge(low[key], value)
        else:
            low[key] = value


def replaced_collection(section: Any) -> str | None:
    """The key of ``evaluators`` that those in ``section`` replace: episodes the fragment, and the other way round."""
    for key, other in (("episodes", "fragment"), ("fragment", "episodes")):
        if isinstance(section, Mapping) and section.get(key) is not None and other not in section:
            return other
    return None


def _choose_optimizer(merged: dict[str, Any], layer: Layer, lent: Lent, provenance: Provenance) -> None:
    """Settings belong to the optimizer that they were given for: another name starts from what is lent to that one."""
    name, before = (_section(settings, "optimizer").get("name") for settings in (layer.settings, merged))
    if not isinstance(name, str) or name == before:
        return
    for key in [key for key in provenance.sources if key.startswith("optimizer.") and key != "optimizer.name"]:
        if provenance.sources.pop(key) not in {lender.source for lender in lent.optimizers}:
            provenance.left_out[key] = f"given for {before}, and the optimizer is {name}"
    merged["optimizer"] = {"name": name, **lent.for_optimizer(name)}
    for lender in lent.optimizers:
        keys = _leaves(lender.settings.get(name, {}), "optimizer.")
        provenance.sources.update(dict.fromkeys(keys, lender.source))


def _choose_collection(merged: dict[str, Any], layer: Layer, provenance: Provenance) -> None:
    replaced = replaced_collection(layer.settings.get("evaluators"))
    before = _section(merged, "evaluators")
    if replaced is not None and before.get(replaced) is not None:
        merged["evaluators"] = {key: value for key, value in before.items() if key != replaced}
        provenance.sources.pop(f"evaluators.{replaced}", None)


def _section(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A section; empty where something else stands in its place, which is refused elsewhere."""
    section = settings.get(name)
    return section if isinstance(section, Mapping) else {}


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in tree.items():
        if is_tree(value) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"
