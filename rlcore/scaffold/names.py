"""What a new plugin is called: as a part, as a distribution, as a module and as a class."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import keyword
import re
import sys
from dataclasses import dataclass

from rlcore import known, registry
from rlcore.errors import UserError
from rlcore.registry import Kind

#: Longer names make lines of the generated code too long.
LONGEST = 40

#: The policy graph of a framework that was named alone.
FIRST_GRAPH = "pg"


@dataclass(frozen=True)
class PluginName:
    """The names of a new plugin. ``given`` is that of its folder and of its distribution."""

    given: str
    #: Under which rlcore finds it.
    part: str

    @property
    def module(self) -> str:
        """The importable name."""
        return re.sub(r"[-.]+", "_", self.given).lower()

    @property
    def wheel(self) -> str:
        """The distribution as it stands in the name of a wheel."""
        return re.sub(r"[-_.]+", "_", self.given).lower()

    @property
    def class_name(self) -> str:
        """``my_plugin`` as ``MyPlugin``; capitals that are there stay."""
        return "".join(word[0].upper() + word[1:] for word in re.split(r"[-_.]+", self.given))


def check_name(kind: Kind, name: str) -> PluginName:
    """The names of a new plugin of ``kind`` that is to be called ``name``.

    Raises ``UserError`` where no distribution or no module can be called so, and where something is already.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*([-_.]+[A-Za-z0-9]+)*", name):
        raise UserError(
            f"'{name}' cannot name a package: letters and digits, a letter first, with '-', '_' or '.' in between"
        )
    if len(name) > LONGEST:
        raise UserError(f"'{name}' is too long for a name: it has {len(name)} characters, {LONGEST} are enough")
    names = PluginName(name, _part(kind, name))
    if keyword.iskeyword(names.module):
        raise UserError(f"'{name}' cannot name a package: '{names.module}' is a word of Python's own")
    _refuse_taken(kind, names)
    return names


def _part(kind: Kind, name: str) -> str:
    if kind.name != "policy_graph":
        return name
    # What stands before the dot is the framework, by which algorithms find the graph.
    if not re.fullmatch(r"\w+(\.\w+)?", name):
        raise UserError(
            f"'{name}' cannot name a policy graph: it is 'framework.graph', words of letters, digits and '_' "
            f"(as 'numpy.pg'), or a framework alone, whose '{FIRST_GRAPH}' it is then"
        )
    return name if "." in name else f"{name}.{FIRST_GRAPH}"


def _refuse_taken(kind: Kind, names: PluginName) -> None:
    there = [plugin for plugin in registry.available(kind.name) if plugin.name == names.part]
    ours = known.names_of(kind.name).get(names.part)
    if there or ours:
        source = there[0].source if there else f"{ours}, which is not installed here"
        raise UserError(f"the {kind.label} '{names.part}' is there already, of {source}: choose another name")
    if kind.name == "command":
        from rlcore.cli import COMMANDS

        if names.part in COMMANDS:
            raise UserError(f"'{names.part}' is a command of rlcore's own: choose another name")
    try:
        version = importlib.metadata.version(names.given)
    except importlib.metadata.PackageNotFoundError:
        pass
    else:
        raise UserError(f"there is a package '{names.given}' {version} installed already: choose another name")
    if names.module in sys.stdlib_module_names or _is_module(names.module):
        raise UserError(f"there is a module '{names.module}' already, which a package '{names.given}' would hide")


def _is_module(name: str) -> bool:
    spec = importlib.util.find_spec(name)
    # A folder without an __init__.py somewhere on the path hides nothing and is hidden.
    return spec is not None and spec.origin is not None
