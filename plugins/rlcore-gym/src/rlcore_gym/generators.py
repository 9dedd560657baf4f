"""The random generators that an environment holds: found, read and set, so that an episode can be played again."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from rlcore.errors import CheckpointError

Env = gymnasium.Env[Any, Any]

#: Stands between the name of a space and the number of the space within it that has the generator.
_SPACE = " space "

_Generator = np.random.Generator | np.random.RandomState | random.Random
_TYPES = (np.random.Generator, np.random.RandomState, random.Random)

#: What most attributes are, which need no closer look.
_NEITHER = frozenset({int, float, bool, str, type(None), tuple, list, dict, np.ndarray, np.float32, np.float64})


class Place(NamedTuple):
    """Where a generator is: an attribute of a wrapper, counted from the outside, or of the environment within."""

    depth: int
    owner: str
    attribute: str


class Snapshot(NamedTuple):
    """A generator and a copy of its state."""

    generator: object
    state: dict[str, Any]


States = dict[str, dict[str, Any]]


class Generators:
    """Those among the attributes of an environment and of its wrappers: numpy's, old and new, Python's, and spaces'.

    They are looked for when this is made, and ``idle`` ones left out: reading a state costs more than what little most
    environments do with them. What reset puts in the same place later is found there.
    """

    def __init__(self, env: Env, idle: Mapping[Place, Snapshot] | None = None) -> None:
        idle = idle or {}
        self._held = [
            (place, holder, key)
            for place, holder, key in _places(env)
            if place not in idle or not same(_state(holder[key]), idle[place].state)
        ]

    def snapshots(self) -> dict[Place, Snapshot]:
        """All of them with their states."""
        found = {place: holder.get(key) for place, holder, key in self._held}
        return {place: Snapshot(one, _state(one)) for place, one in found.items() if isinstance(one, _TYPES)}

    def states(self) -> States:
        """``{depth: {attribute: state}}`` as a tree of dicts, arrays, numbers and strings."""
        tree: States = {}
        for place, holder, key in self._held:
            generator = holder.get(key)
            if isinstance(generator, _TYPES):
                tree.setdefault(str(place.depth), {})[place.attribute] = _state(generator)
        return tree


def restore(env: Env, tree: Mapping[str, Mapping[str, Any]]) -> bool:
    """Sets generators to what ``states`` gave; False where there is none of that kind in that place."""
    here = {(str(place.depth), place.attribute): holder[key] for place, holder, key in _places(env)}
    for depth, attributes in tree.items():
        for attribute, state in attributes.items():
            generator = here.get((depth, attribute))
            if generator is None or _kind(generator) != state.get("bit_generator"):
                return False
            _set_state(generator, state)
    return True


def seed_spaces(env: Env, seed: int) -> dict[Place, Snapshot]:
    """Seeds the spaces of ``env``, for environments that sample from them; their generators as they are then."""
    number = 0
    for layer in _layers(env):
        for value in vars(layer).values():
            if type(value) not in _NEITHER and isinstance(value, gymnasium.Space):
                # Not the seed itself: they would draw what the environment draws.
                number += 1
                value.seed(zlib.crc32(f"{seed} {number}".encode()))
    return {place: one for place, one in Generators(env).snapshots().items() if _SPACE in place.attribute}


def same(one: Any, other: Any) -> bool:
    """Whether two state trees are equal."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return bool(np.array_equal(one, other))
    return bool(one == other)


def _places(env: Env) -> Iterator[tuple[Place, dict[str, Any], str]]:
    """Where generators are, and the attributes and name that they are found under."""
    for depth, layer in enumerate(_layers(env)):
        for attribute, value in vars(layer).items():
            if type(value) in _NEITHER:
                continue
            if isinstance(value, _TYPES):
                yield Place(depth, type(layer).__name__, attribute), vars(layer), attribute
            elif isinstance(value, gymnasium.Space):
                for number, space in enumerate(_spaces(value)):
                    if isinstance(vars(space).get("_np_random"), _TYPES):
                        name = f"{attribute}{_SPACE}{number}"
                        yield Place(depth, type(layer).__name__, name), vars(space), "_np_random"


def _spaces(space: gymnasium.Space[Any]) -> Iterator[gymnasium.Space[Any]]:
    """A space and all within it."""
    yield space
    match space:
        case gymnasium.spaces.Dict():
            children = list(space.spaces.values())
        case gymnasium.spaces.Tuple():
            children = list(space.spaces)
        case _:
            children = []
    for child in children:
        yield from _spaces(child)


def _layers(env: Env) -> Iterator[Env]:
    yield env
    while isinstance(env, gymnasium.Wrapper):
        env = env.env
        yield env


def _kind(generator: _Generator) -> str:
    if isinstance(generator, np.random.Generator):
        return str(generator.bit_generator.state["bit_generator"])
    return type(generator).__name__


def _state(generator: _Generator) -> dict[str, Any]:
    match generator:
        case np.random.Generator():
            return dict(generator.bit_generator.state)
        case np.random.RandomState():
            return {"bit_generator": _kind(generator), "state": dict(generator.get_state(legacy=False))}
    version, words, gauss = generator.getstate()
    return {"bit_generator": _kind(generator), "version": version, "words": np.array(words), "gauss": gauss}


def _set_state(generator: _Generator, state: Mapping[str, Any]) -> None:
    try:
        match generator:
            case np.random.Generator():
                generator.bit_generator.state = dict(state)
            case np.random.RandomState():
                generator.set_state(state["state"])
            case _:
                generator.setstate((state["version"], tuple(state["words"].tolist()), state["gauss"]))
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the saved state of a random generator cannot be read: {error}") from error
