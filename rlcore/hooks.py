"""Lifecycle events. A hook is told what happens in a run; it decides nothing (names choose parts, hooks only listen).

A plugin of the group ``rlcore.hooks`` is a module or a class, and ``Trainer(config, hooks=[...])`` takes objects::

    class Report:
        @rlcore.hooks.hookimpl
        def run_end(self, status):          # any of the event's arguments, by name
            print(status)

In an object or class given, a method named like an event counts without the decorator as well. Hooks are called in the
reverse of the order in which they were given; what one raises ends the run.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
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
    def worker_lost(self, index: int, cause: str) -> None:
        """Evaluator ``index`` was lost for the reason ``cause``, and is being replaced."""

    @_hookspec
    def run_end(self, status: str, result: Mapping[str, Any]) -> None:
        """A run is over; ``status`` says why it ended and ``result`` is what ``result.json`` says."""

    @_hookspec
    def episode_end(self, worker: int, episode: Episode) -> None:
        """In the evaluator with index ``worker``: ``episode`` is over."""


class HookWarning(UserWarning):
    """An installed hook plugin cannot be used, and the run goes on without it."""


class Hooks:
    """The hooks of one process. ``hooks.call.iteration(row=row)`` calls that event of every one of them."""

    def __init__(self) -> None:
        self._manager = _Manager(PROJECT)
        self._manager.add_hookspecs(Events)
        #: The events, as functions to call with keywords.
        self.call = cast(Events, self._manager.hook)
        self._given: dict[str, object] = {}

    def add(self, given: object) -> None:
        """Takes part from now on: an object with hooks, a class of one, a module, or the name of a hook plugin.

        Adding the same thing again changes nothing. Raises ``InvalidPluginError`` where an event or an argument does
        not exist, or nothing is implemented, and what ``registry.load`` raises for a name.
        """
        if any(given is known or (isinstance(known, str) and given == known) for known in self._given.values()):
            return
        what = f"hook '{given}'" if isinstance(given, str) else f"hook {registry.target_of(given)}"
        plugin = registry.load("hook", given) if isinstance(given, str) else given
        if inspect.isclass(plugin):
            try:
                plugin = plugin()
            except Exception as error:
                raise BrokenPluginError(f"{what} cannot be made: {type(error).__name__}: {error}") from error
        _check_implementations(self._manager, plugin, what)
        if plugin not in [known for _, known in self._manager.list_name_plugin()]:
            name = f"{what} #{len(self._given)}"
            self._manager.register(plugin, name)
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


def _check_implementations(manager: _Manager, plugin: object, what: str) -> None:
    """Raises ``InvalidPluginError`` for what pluggy would take without a word, or refuse in words of its own."""
    events = {name: _arguments(getattr(Events, name)) for name in event_names()}
    found = 0
    for name in dir(plugin):
        options = manager.parse_hookimpl_opts(plugin, name)
        if options is None:
            continue
        found += 1
        event = options.get("specname") or name
        if event not in events:
            hint = lookup_errors.did_you_mean(event, events)
            raise InvalidPluginError(f"{what}: there is no event '{event}'{hint}\nevents: {', '.join(events)}")
        for argument in _arguments(getattr(plugin, name)):
            if argument not in events[event]:
                hint = lookup_errors.did_you_mean(argument, events[event])
                has = f"it has: {', '.join(events[event])}"
                raise InvalidPluginError(f"{what}: event '{event}' has no argument '{argument}'{hint} ({has})")
    if not found:
        raise InvalidPluginError(
            f"{what} implements no event; mark its functions with rlcore.hooks.hookimpl\nevents: {', '.join(events)}"
        )


def _arguments(function: Callable[..., Any]) -> list[str]:
    """The names of the arguments without a default: a hook's own defaults are its own business."""
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.name != "self" and each.default is each.empty]
