"""Lifecycle events. A hook is told what happens in a run; it decides nothing (names choose parts, hooks only listen).

A plugin of the group ``rlcore.hooks`` is a module or a class, and ``Trainer(config, hooks=[...])`` takes objects::

    class Report:
        @rlcore.hooks.hookimpl
        def run_end(self, status):          # any of the event's arguments, by name
            print(status)

In an object or class given, a method named like an event counts without the decorator as well. Hooks are called in the
reverse of the order in which they were given.

What a hook of the program's own raises ends the run, with a note that names hook and event. A hook of an installed
package is there whether the program knows of it or not: where it raises, a ``HookWarning`` says so once for each event,
and the run goes on.
"""

from __future__ import annotations

import functools
import inspect
import traceback
import types
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pluggy

from rlcore import lookup_errors, registry
from rlcore.errors import BrokenPluginError, InvalidPluginError, PluginError

if TYPE_CHECKING:
    from rlcore.config import RunConfig
    from rlcore.sampling.episode import Episode

PROJECT = "rlcore"

#: Marks a function or method as one that implements the event of its name.
hookimpl = pluggy.HookimplMarker(PROJECT)
_hookspec = pluggy.HookspecMarker(PROJECT)

#: The event that workers call; the driver calls the others.
WORKER_EVENT = "episode_end"


class Events:
    """The events and their arguments; not a class to derive hooks from. Always called with keywords."""

    @_hookspec
    def run_start(self, config: RunConfig, out: Path | None) -> None:
        """A run begins or goes on, with the resolved ``config``; ``out`` is its folder, if it has one."""

    @_hookspec
    def iteration(self, row: Mapping[str, Any]) -> None:
        """An iteration is over; ``row`` is what ``progress.jsonl`` says of it."""

    @_hookspec
    def evaluation(self, result: Mapping[str, Any]) -> None:
        """An evaluation is over; ``result`` has its returns, ``episodes``, ``weights_version`` and ``env_steps``."""

    @_hookspec
    def checkpoint(self, path: Path, iteration: int, best: bool) -> None:
        """The checkpoint of ``iteration`` is complete in the folder ``path``; ``best`` if it is the best."""

    @_hookspec
    def worker_lost(self, index: int, cause: str, worker: str) -> None:
        """Worker ``index`` was lost for ``cause``, and is being replaced; ``worker`` is its kind, such as evaluator."""

    @_hookspec
    def places_vacant(self, places: Sequence[int], size: int) -> None:
        """Rounds go on without ``places``: there is no room for these of ``size`` evaluators; ``[]``: all are there."""

    @_hookspec
    def run_end(self, status: str, result: Mapping[str, Any]) -> None:
        """A run is over; ``status`` says why it ended and ``result`` is what ``result.json`` says."""

    @_hookspec
    def episode_end(self, worker: int, episode: Episode) -> None:
        """In the evaluator with index ``worker``: ``episode`` is over."""


class HookWarning(UserWarning):
    """An installed hook plugin cannot be used, or failed in an event, and the run goes on without it."""


class Hooks:
    """The hooks of one process. ``hooks.call.iteration(row=row)`` calls that event of every one of them."""

    def __init__(self) -> None:
        self._manager = _Manager(PROJECT)
        self._manager.add_hookspecs(Events)
        #: The events, as functions to call with keywords.
        self.call = cast(Events, self._manager.hook)
        self._given: dict[str, object] = {}
        self._plugins: list[object] = []

    def add(self, given: object) -> None:
        """Takes part from now on: an object with hooks, a class of one, a module, or the name of a hook plugin.

        Adding the same thing again changes nothing. Raises ``InvalidPluginError`` where an event or an argument does
        not exist, or nothing is implemented, and what ``registry.load`` raises for a name.
        """
        if any(given is known or (isinstance(known, str) and given == known) for known in self._given.values()):
            return
        what, installed = _described(given)
        plugin = registry.load("hook", given) if isinstance(given, str) else given
        if inspect.isclass(plugin):
            try:
                plugin = plugin()
            except Exception as error:
                raise BrokenPluginError(f"{what} cannot be made: {type(error).__name__}: {error}") from error
        implemented = _implementations(self._manager, plugin, what)
        if not any(plugin is known for known in self._plugins):
            name = f"{what} #{len(self._given)}"
            self._manager.register(_guarded(plugin, implemented, what, installed), name)
            self._plugins.append(plugin)
            self._given[name] = given

    def for_workers(self) -> tuple[object, ...]:
        """The objects and names that implement the workers' event, to be sent there and given to :func:`load_hooks`."""
        caller: pluggy.HookCaller = getattr(self._manager.hook, WORKER_EVENT)
        listening = {implementation.plugin_name for implementation in caller.get_hookimpls()}
        return tuple(given for name, given in self._given.items() if name in listening)


def load_hooks(given: Iterable[object] = (), *, installed: bool = True) -> Hooks:
    """The ``given`` objects and names and, with ``installed``, every hook plugin that can be had by name.

    What is wrong with something ``given`` or registered by the program is an error. An installed plugin that nobody
    asked for and that fails is a ``HookWarning`` with its name and the cause; the others are loaded all the same.
    """
    hooks = Hooks()
    asked = list(given)
    names = {name.partition("@")[0] for name in asked if isinstance(name, str)}
    for plugin in registry.available("hook") if installed else []:
        if plugin.name in names:
            continue
        if plugin.distribution is None:
            hooks.add(plugin.name)
            continue
        try:
            hooks.add(f"{plugin.name}@{plugin.distribution}")
        except PluginError as error:
            warnings.warn(f"going on without an installed hook plugin: {error}", HookWarning, stacklevel=2)
    for item in asked:
        hooks.add(item)
    return hooks


def event_names() -> list[str]:
    """The names of all events, in the order of :class:`Events`."""
    return [name for name in vars(Events) if not name.startswith("_")]


class _Manager(pluggy.PluginManager):
    """Takes methods named like an event as implementations of it, also without the decorator.

    Not so in modules: there a function of that name may be imported from anywhere.
    """

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        options = super().parse_hookimpl_opts(plugin, name)
        if options is None and name in event_names() and not inspect.ismodule(plugin):
            return {} if inspect.isfunction(inspect.getattr_static(type(plugin), name, None)) else None
        return options


def _described(given: object) -> tuple[str, bool]:
    """How messages call a hook, and whether it is one of an installed package."""
    if not isinstance(given, str):
        return f"hook {registry.target_of(given)}", False
    if registry.is_import_path(given):
        return f"hook '{given}'", False
    plugin = registry.find("hook", given)
    return f"hook '{plugin.name}' of {plugin.source}", plugin.distribution is not None


def _implementations(manager: _Manager, plugin: object, what: str) -> dict[str, Mapping[str, Any]]:
    """The options of the functions that implement an event, by their names in ``plugin``.

    Raises ``InvalidPluginError`` for what pluggy would take without a word, or refuse in words of its own.
    """
    events = {name: _arguments(getattr(Events, name)) for name in event_names()}
    found: dict[str, Mapping[str, Any]] = {}
    for name in dir(plugin):
        options = manager.parse_hookimpl_opts(plugin, name)
        if options is None:
            continue
        found[name] = options
        event = options.get("specname") or name
        if event not in events:
            hint = lookup_errors.did_you_mean(event, events)
            raise InvalidPluginError(f"{what}: there is no event '{event}'{hint}\nevents: {', '.join(events)}")
        if options.get("wrapper") or options.get("hookwrapper"):
            raise InvalidPluginError(f"{what}: event '{event}' cannot be wrapped; a hook is told of it like all others")
        for argument in _arguments(getattr(plugin, name)):
            if argument not in events[event]:
                hint = lookup_errors.did_you_mean(argument, events[event])
                has = f"it has: {', '.join(events[event])}"
                raise InvalidPluginError(f"{what}: event '{event}' has no argument '{argument}'{hint} ({has})")
    if not found:
        raise InvalidPluginError(
            f"{what} implements no event; mark its functions with rlcore.hooks.hookimpl\nevents: {', '.join(events)}"
        )
    return found


def _guarded(
    plugin: object, implemented: Mapping[str, Mapping[str, Any]], what: str, installed: bool
) -> types.ModuleType:
    """What pluggy is given in place of ``plugin``: the same functions, which say whose they are where they fail."""
    stand_in = types.ModuleType(what)
    for name, options in implemented.items():
        event = options.get("specname") or name
        guard = _warning if installed else _noting
        setattr(stand_in, name, hookimpl(**_order_of(options))(guard(getattr(plugin, name), what, event)))
    return stand_in


def _order_of(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: options[key] for key in ("specname", "tryfirst", "trylast") if key in options}


def _noting(implementation: Callable[..., Any], what: str, event: str) -> Callable[..., Any]:
    @functools.wraps(implementation)
    def call(*arguments: Any) -> None:
        try:
            implementation(*arguments)
        except Exception as error:
            error.add_note(f"raised by {what} in event '{event}'")
            raise

    return call


def _warning(implementation: Callable[..., Any], what: str, event: str) -> Callable[..., Any]:
    said = False

    @functools.wraps(implementation)
    def call(*arguments: Any) -> None:
        nonlocal said
        try:
            implementation(*arguments)
        # A package that nobody may have asked for does not end the program either.
        except (Exception, SystemExit) as error:
            if not said:
                said = True
                cause = f"{type(error).__name__}: {error}".rstrip(": ")
                frame = traceback.extract_tb(error.__traceback__)[-1]
                message = f"{what} failed in event '{event}' and the run goes on: {cause}"
                warnings.warn(f"{message} ({frame.filename}:{frame.lineno})", HookWarning, stacklevel=2)

    return call


def _arguments(function: Callable[..., Any]) -> list[str]:
    """The names of the arguments without a default: a hook's own defaults are its own business."""
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.name != "self" and each.default is each.empty]
