"""The files of a new plugin: templates of its kind and those that all kinds share, filled in and written.

A template is a file whose name ends in ``.template``. In it ``{{ word }}`` stands for the value of that word, and the
folder ``MODULE`` for that of the package; there is nothing else to it.
"""

from __future__ import annotations

import builtins
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType

import rlcore
from rlcore import registry
from rlcore.errors import UserError
from rlcore.registry import Kind
from rlcore.requirements import required_name, requirements
from rlcore.scaffold.names import PluginName, check_name

TEMPLATES = Path(__file__).parent / "templates"
COMMON, ABOUT, MODULE, SUFFIX = "common", "about.md", "MODULE", ".template"


@dataclass(frozen=True)
class Outline:
    """What is said of a kind beside its templates.

    ``summary`` is the package's description, ``ending`` what a class is called that would otherwise be called like
    something that it uses, ``attribute`` the name of the part where it is no class; ``requires`` and ``testing`` are
    the distributions that the code and its tests import.
    """

    summary: str
    ending: str
    requires: tuple[str, ...]
    testing: tuple[str, ...] = ()
    attribute: str | None = None


#: By kind; there is one for each kind of the registry.
OUTLINES: Mapping[str, Outline] = MappingProxyType(
    {
        "policy_graph": Outline(
            "A policy graph for rlcore: REINFORCE with one hidden layer in numpy.",
            "Graph",
            ("gymnasium", "numpy", "pydantic"),
            ("rlcore-sync",),
        ),
        "env": Outline(
            "An environment for rlcore: a walk to a place on a grid.",
            "Env",
            ("rlcore-gym", "gymnasium", "numpy"),
            ("rlcore-sync",),
        ),
        "optimizer": Outline(
            "An optimizer for rlcore: several passes over each round of samples.",
            "Optimizer",
            ("numpy", "pydantic"),
            ("rlcore-sync",),
        ),
        "algorithm": Outline(
            "An algorithm for rlcore: REINFORCE from whole episodes.", "Recipe", ("rlcore-sync",), ("rlcore-gym",)
        ),
        "runtime": Outline(
            "A runtime for rlcore: every worker in a thread of its own.", "Runtime", (), ("rlcore-sync",)
        ),
        "hook": Outline(
            "A hook for rlcore: keeps the best mean return of a run in a file.", "Hook", (), ("rlcore-sync",)
        ),
        "command": Outline(
            "A command for rlcore: lists runs, the best first.", "Command", ("click", "rich"), attribute="command"
        ),
    }
)


def new_plugin(kind: str, name: str, folder: Path) -> Path:
    """Writes the package ``folder / name`` with a part of ``kind``, which ``name`` then stands for; gives its path.

    Nothing is left where it fails. Raises ``UnknownPluginError`` for a kind that there is not, and ``UserError`` for a
    name that cannot be had, a place that is taken, and where the disk refuses.
    """
    which = registry.kind_named(kind)
    names = check_name(which, name)
    place = folder / name
    if place.exists():
        raise UserError(f"{place} exists already: choose another name, or another folder to be in")
    files = render(which, names)
    # Written beside and renamed: there is a whole package, or none.
    beside = folder / f".{name}-{uuid.uuid4().hex[:8]}"
    try:
        for path, text in files.items():
            target = beside / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8", newline="\n")
        os.rename(beside, place)
    except OSError as error:
        shutil.rmtree(beside, ignore_errors=True)
        raise UserError(f"cannot write {place}: {error.strerror or error}") from error
    return place


def render(kind: Kind, names: PluginName) -> dict[PurePosixPath, str]:
    """``{path in the package's folder: text}`` of a new plugin."""
    templates = dict(_templates(COMMON)) | dict(_templates(kind.name))
    about = templates.pop(PurePosixPath(ABOUT))
    values = _values(kind, names, "".join(templates.values()))
    values["about"] = fill(about, values).rstrip("\n")
    return {_placed(path, names): fill(text, values) for path, text in templates.items()}


def fill(template: str, values: Mapping[str, str]) -> str:
    """``template`` with ``{{ word }}`` replaced by ``values[word]``. ``KeyError`` for a word without a value."""
    return re.sub(r"\{\{ (\w+) \}\}", lambda found: values[found[1]], template)


def _templates(folder: str) -> Iterator[tuple[PurePosixPath, str]]:
    """``(path, text)`` of the templates in ``folder``, without the ending of their names."""
    root = TEMPLATES / folder
    for file in sorted(root.rglob(f"*{SUFFIX}")):
        path = file.relative_to(root).as_posix()
        yield PurePosixPath(path.removesuffix(SUFFIX)), file.read_text(encoding="utf-8")


def _placed(path: PurePosixPath, names: PluginName) -> PurePosixPath:
    return PurePosixPath(*(names.module if part == MODULE else part for part in path.parts))


def _values(kind: Kind, names: PluginName, text: str) -> dict[str, str]:
    """What the words of the templates stand for; ``text`` is all of them."""
    outline = OUTLINES[kind.name]
    class_name = names.class_name
    # A class of that name would hide what the code around it uses.
    if re.search(rf"\b(Test)?{class_name}(Config)?\b", text) or hasattr(builtins, class_name):
        class_name += outline.ending
    framework, _, graph = names.part.partition(".")
    return {
        "name": names.given,
        "part": names.part,
        "module": names.module,
        "wheel": names.wheel,
        "class": class_name,
        "framework": framework,
        "graph": graph,
        "label": kind.label,
        "group": kind.group,
        "target": f"{names.module}:{outline.attribute or class_name}",
        "summary": outline.summary,
        "dependencies": _lines("rlcore", *outline.requires),
        "testing": _lines("rlcore[testing]", *outline.testing),
    }


def _lines(*distributions: str) -> str:
    return "\n".join(f'    "{requirement(name)}",' for name in distributions)


def requirement(distribution: str) -> str:
    """What a plugin requires of ``distribution``: of ours this minor version, of others what the kernel itself asks."""
    if distribution.startswith("rlcore"):
        major, minor = rlcore.__version__.split(".")[:2]
        return f"{distribution}>={major}.{minor},<{major}.{int(minor) + 1}"
    lines = {required_name(line): line for line in requirements("rlcore")}
    return lines.get(distribution, distribution)
