"""Names to classes. Installed packages offer parts by entry point; a script or a notebook adds its own.

Listing reads metadata and imports nothing. Loading imports the one part that was asked for, so a broken package breaks
only whoever asks for it. A name is one of:

* ``name``: as an installed package or ``register`` gave it;
* ``name@distribution``: the same where two packages give it;
* ``package.module:Class``: an import path.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import pickle
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import cloudpickle
import gymnasium
from gymnasium.envs.registration import EnvSpec
from stevedore import DriverManager

from rlcore import known, lookup_errors
from rlcore.errors import AmbiguousPluginError, BrokenPluginError, InvalidPluginError, UnknownPluginError
from rlcore.requirements import canonical

if TYPE_CHECKING:
    from rlcore.algorithm import Algorithm
    from rlcore.policy_graph import PolicyGraph
    from rlcore.policy_optimizer import PolicyOptimizer
    from rlcore.runtime.base import Runtime

Registered = TypeVar("Registered")


@dataclass(frozen=True)
class Kind:
    """A kind of part: its entry-point group, and the base class (as import path) that parts of it derive from.

    ``base`` is None where any object will do; with ``callables`` a function that makes the part will do as well. Parts
    are classes, or with ``objects`` instances of the base class.
    """

    name: str
    group: str
    base: str | None
    callables: bool = False
    objects: bool = False

    @property
    def label(self) -> str:
        """How messages call it."""
        return self.name.replace("_", " ")

    def check(self, part: object, what: str) -> None:
        """Raises ``InvalidPluginError`` where ``part`` is not of this kind, or leaves methods unwritten."""
        if self.base is None:
            return
        base = import_object(self.base)
        if self.objects:
            if not isinstance(part, base):
                raise InvalidPluginError(f"{what} is {_describe(part)}, not a {self.base.replace(':', '.')}")
            return
        if inspect.isclass(part) and issubclass(part, base):
            missing = ", ".join(sorted(getattr(part, "__abstractmethods__", ())))
            if missing:
                raise InvalidPluginError(f"{what} is incomplete: {part.__name__} does not define {missing}")
        elif not (self.callables and callable(part)):
            wanted = f"a subclass of {base.__module__}.{base.__name__}{' or a callable' * self.callables}"
            raise InvalidPluginError(f"{what} is {_describe(part)}, not {wanted}")


#: All kinds by name.
KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            Kind("policy_graph", "rlcore.policy_graphs", "rlcore.policy_graph:PolicyGraph"),
            # An environment is named within a provider, or is itself a class or a function.
            Kind("env", "rlcore.envs", "rlcore.envs:EnvProvider", callables=True),
            Kind("optimizer", "rlcore.optimizers", "rlcore.policy_optimizer:PolicyOptimizer"),
            Kind("algorithm", "rlcore.algorithms", "rlcore.algorithm:Algorithm"),
            Kind("runtime", "rlcore.runtimes", "rlcore.runtime.base:Runtime"),
            Kind("hook", "rlcore.hooks", None),
            Kind("command", "rlcore.commands", "click:Command", objects=True),
        )
    }
)


@dataclass(frozen=True)
class Plugin:
    """A part that can be had by name. ``distribution`` and ``version`` are None where this program registered it."""

    kind: str
    name: str
    #: ``package.module:Class``
    target: str
    distribution: str | None = None
    version: str | None = None

    @property
    def source(self) -> str:
        """``"rlcore-gym 0.1.0"``, or ``"this program"``."""
        return "this program" if self.distribution is None else f"{self.distribution} {self.version}"

    def is_of(self, distribution: str) -> bool:
        """Whether the distribution of that name provides it, in any of the spellings that installers take for one."""
        return self.distribution is not None and canonical(self.distribution) == canonical(distribution)


@dataclass(frozen=True)
class Registrations:
    """What a program has registered, in a form that travels to workers (with cloudpickle, as classes of a script do).

    ``parts`` are ``(kind, name, object)``; ``gym_specs`` the Gymnasium ids registered from outside Gymnasium itself.
    Parts that were sent are opened when they are loaded: a policy graph would have every worker import its framework.
    """

    parts: tuple[tuple[str, str, Any], ...] = ()
    gym_specs: tuple[EnvSpec, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        return {"parts": tuple((*key, SentPart.of(part)) for *key, part in self.parts), "gym_specs": self.gym_specs}


class SentPart:
    """A registered part from another process, packed. It goes by the part's own module and name."""

    def __init__(self, target: str, data: bytes) -> None:
        self.__module__, self.__qualname__ = target.split(":")
        self._data = data

    @classmethod
    def of(cls, part: object) -> SentPart:
        """``part``, to be sent; one that was sent before goes on as it is."""
        return part if isinstance(part, SentPart) else cls(target_of(part), cloudpickle.dumps(part))

    def open(self) -> Any:
        """The part itself."""
        return pickle.loads(self._data)


# A decorator has nowhere else to put what it is given. Read through `available`, `find` and `registrations` only.
_registered: dict[tuple[str, str], Any] = {}


def register(kind: str, name: str) -> Callable[[Registered], Registered]:
    """Decorator that makes a class (or a function, for an environment) of a script known by ``name``.

    Repeating it is harmless, also with the new class object that running a notebook cell again makes. Another class
    under a taken name is an ``AmbiguousPluginError``, one of the wrong kind an ``InvalidPluginError``.
    """
    which = kind_named(kind)
    if not isinstance(name, str):
        raise InvalidPluginError(f"a name to register under is a text, not {name!r}")
    if not re.fullmatch(r"[^\s@:]+", name):
        raise InvalidPluginError(f"'{name}' cannot name a registered {which.label}: no '@', no ':' and no spaces")

    def add(part: Registered) -> Registered:
        which.check(part, f"what is registered as {which.label} '{name}'")
        _add(which, name, part)
        return part

    return add


def _add(which: Kind, name: str, part: object) -> None:
    taken = _registered.get((which.name, name))
    if taken is not None and not _same(taken, part):
        raise AmbiguousPluginError(
            f"{which.label} '{name}' is already registered for {target_of(taken)}; "
            f"register {target_of(part)} under another name"
        )
    _registered[which.name, name] = part


def registrations() -> Registrations:
    """A snapshot of what this program has registered."""
    parts = tuple((kind, name, part) for (kind, name), part in _registered.items())
    specs = tuple(spec for spec in gymnasium.registry.values() if not _is_gymnasiums_own(spec))
    return Registrations(parts, specs)


def adopt(given: Registrations) -> None:
    """Registers in this process what another one sent; doing it again is harmless."""
    for kind, name, part in given.parts:
        if isinstance(part, SentPart):
            # It was checked where it comes from.
            _add(kind_named(kind), name, part)
        else:
            register(kind, name)(part)
    for spec in given.gym_specs:
        gymnasium.registry[spec.id] = spec


def available(kind: str | None = None) -> list[Plugin]:
    """All parts that can be had by name, of one kind or of all: sorted, each with its package. Imports nothing."""
    kinds = list(KINDS.values()) if kind is None else [kind_named(kind)]
    installed = importlib.metadata.entry_points()
    plugins: list[Plugin] = []
    for which in kinds:
        found = {_plugin(which.name, entry_point) for entry_point in installed.select(group=which.group)}
        targets = {(plugin.name, plugin.target) for plugin in found}
        for (owner, name), part in _registered.items():
            # A package may register what it also provides by entry point.
            if owner == which.name and (name, target_of(part)) not in targets:
                found.add(Plugin(owner, name, target_of(part)))
        plugins += sorted(found, key=lambda plugin: (plugin.name, plugin.distribution or "", plugin.target))
    return plugins


def find(kind: str, name: str) -> Plugin:
    """The one part that ``name`` or ``name@distribution`` stands for, without importing it.

    Raises ``UnknownPluginError`` where nothing provides it, ``AmbiguousPluginError`` where two packages do.
    """
    which = kind_named(kind)
    plain, _, owner = name.partition("@")
    here = available(kind)
    matches = [plugin for plugin in here if plugin.name == plain and (not owner or plugin.is_of(owner))]
    if not matches:
        raise lookup_errors.unknown(kind, which.label, plain, owner, here)
    if len(matches) > 1:
        raise lookup_errors.ambiguous(which.label, plain, matches)
    return matches[0]


@overload
def load(kind: Literal["policy_graph"], name: str) -> type[PolicyGraph]: ...
@overload
def load(kind: Literal["optimizer"], name: str) -> type[PolicyOptimizer]: ...
@overload
def load(kind: Literal["algorithm"], name: str) -> type[Algorithm]: ...
@overload
def load(kind: Literal["runtime"], name: str) -> type[Runtime]: ...
@overload
def load(kind: str, name: str) -> Any: ...
def load(kind: str, name: str) -> Any:
    """The class that ``name`` stands for; it is checked to be of its kind, and not called.

    Raises ``UnknownPluginError``, ``AmbiguousPluginError``, ``BrokenPluginError`` (its import fails; the cause is
    chained) or ``InvalidPluginError`` (what is there is not of the kind).
    """
    which = kind_named(kind)
    if not isinstance(name, str):
        raise UnknownPluginError(f"{which.label}: a name is a text, not {name!r}")
    if not is_import_path(name):
        return load_plugin(find(kind, name))
    part = import_object(name)
    which.check(part, f"{which.label} '{name}'")
    return part


def load_plugin(plugin: Plugin) -> Any:
    """The class of one entry of :func:`available`; errors as for :func:`load`."""
    which = kind_named(plugin.kind)
    if plugin.distribution is None:
        part = _registered[plugin.kind, plugin.name]
        if isinstance(part, SentPart):
            part = _registered[plugin.kind, plugin.name] = part.open()
        return part
    what = f"{which.label} '{plugin.name}' of {plugin.source}"
    entry_point = importlib.metadata.EntryPoint(plugin.name, plugin.target, which.group)
    # A package installed since this process started is not in the import system's lists of folders yet.
    importlib.invalidate_caches()
    try:
        part = _OneEntryPoint(entry_point).driver
    except (Exception, SystemExit) as error:
        hint = lookup_errors.what_is_missing(error, plugin.distribution, plugin.target)
        raise BrokenPluginError(f"{what} cannot be imported ({plugin.target}): {_cause(error)}{hint}") from error
    which.check(part, what)
    return part


class _OneEntryPoint(DriverManager):  # type: ignore[type-arg]  # older releases cannot be subscripted
    """stevedore's driver over an entry point already found, so that its own discovery takes no part.

    That discovery goes through a cache in the user's folder, keyed by times rounded to minutes: what was installed a
    moment ago may be missing, and which distribution an entry point came from is lost.
    """

    def __init__(self, entry_point: importlib.metadata.EntryPoint) -> None:
        self._entry_point = entry_point
        super().__init__(entry_point.group, entry_point.name, invoke_on_load=False)

    def list_entry_points(self) -> list[importlib.metadata.EntryPoint]:
        return [self._entry_point]


def is_import_path(name: str) -> bool:
    """Whether ``name`` is an import path; loading it runs whatever module it names."""
    return ":" in name


def import_object(path: str) -> Any:
    """What the import path ``package.module:Class`` leads to; ``module:Outer.Inner`` reaches inside.

    Raises ``UnknownPluginError`` where module or attribute do not exist, ``BrokenPluginError`` where the import fails.
    """
    if not re.fullmatch(r"\w+(\.\w+)*:\w+(\.\w+)*", path):
        raise UnknownPluginError(f"'{path}' is no import path of the form package.module:Class")
    module, _, attributes = path.partition(":")
    found = import_module(module, f"'{path}'")
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            hint = lookup_errors.did_you_mean(attribute, [name for name in dir(found) if not name.startswith("_")])
            raise UnknownPluginError(f"'{path}': {module} has no '{attribute}'{hint}")
        found = getattr(found, attribute)
    return found


def import_module(module: str, what: str) -> Any:
    """The module; ``UnknownPluginError`` where there is none, ``BrokenPluginError`` where its own import fails."""
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
            raise UnknownPluginError(f"{what}: there is no module '{error.name}' on the Python path") from error
        raise BrokenPluginError(f"{what}: importing {module} fails: {_cause(error)}") from error


def frameworks(graph: str) -> list[str]:
    """The frameworks in which the policy graph ``graph`` (``"ppo"``) is installed, the preferred one first."""
    order = known.frameworks()
    names = [plugin.name for plugin in available("policy_graph")]
    have = {framework for name in names if name == f"{(framework := known.framework_of(name))}.{graph}"}
    return [name for name in order if name in have] + sorted(have - set(order))


def graphs_of(framework: str) -> list[str]:
    """The policy graphs that are installed in ``framework``, without its name."""
    names = {plugin.name for plugin in available("policy_graph")}
    return sorted(name.partition(".")[2] for name in names if known.framework_of(name) == framework)


def graph_name(graph: str, framework: str | None = None) -> str:
    """``framework.graph``; without ``framework``, in the preferred one of those in which the graph is installed.

    Raises ``UnknownPluginError`` where there is none.
    """
    if framework is not None:
        graphs, installed = graphs_of(framework), frameworks(graph)
        if graphs and framework not in installed:
            raise lookup_errors.not_in(framework, graph, graphs, installed)
        return find("policy_graph", f"{framework}.{graph}").name
    installed = frameworks(graph)
    preferred = installed or known.frameworks()
    return find("policy_graph", f"{preferred[0]}.{graph}").name


def kind_named(kind: str) -> Kind:
    """The kind of that name; ``UnknownPluginError`` for any other."""
    if not isinstance(kind, str):
        raise UnknownPluginError(f"a kind of plugin is named by a text, not {kind!r}\nkinds: {', '.join(KINDS)}")
    if kind not in KINDS:
        hint = lookup_errors.did_you_mean(kind, KINDS)
        raise UnknownPluginError(f"unknown kind of plugin '{kind}'{hint}\nkinds: {', '.join(KINDS)}")
    return KINDS[kind]


def target_of(part: object) -> str:
    """``module:Qualified.Name`` of a class or a function, else of the object's type."""
    named = part if hasattr(part, "__qualname__") else type(part)
    return f"{named.__module__}:{named.__qualname__}"


def _same(old: object, new: object) -> bool:
    """Whether ``new`` is ``old``, or what running its definition again has made."""
    return old is new or (hasattr(old, "__qualname__") and target_of(old) == target_of(new))


def _is_gymnasiums_own(spec: EnvSpec) -> bool:
    makers = [maker for maker in (spec.entry_point, spec.vector_entry_point) if maker is not None]
    return all(str(maker if isinstance(maker, str) else maker.__module__).startswith("gymnasium.") for maker in makers)


def _plugin(kind: str, entry_point: importlib.metadata.EntryPoint) -> Plugin:
    # A package folder that an interrupted installation left behind may lack its metadata file.
    metadata: Any = entry_point.dist.metadata if entry_point.dist is not None else {}
    name, version = metadata.get("Name"), metadata.get("Version")
    return Plugin(kind, entry_point.name, entry_point.value, name or "a package without metadata", version or "?")


def _cause(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".strip().rstrip(":")


def _describe(part: object) -> str:
    if inspect.isclass(part):
        return f"the class {part.__module__}.{part.__qualname__}"
    if inspect.isroutine(part):
        return f"the function {target_of(part).replace(':', '.')}"
    return f"of type {type(part).__name__}"
