"""The random generators that an environment holds: found, read and set, so that an episode can be played again."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from rlcore.errors import CheckpointError

_Generator = np.random.Generator | np.random.RandomState | random.Random
_TYPES = (np.random.Generator, np.random.RandomState, random.Random)


class Place(NamedTuple):
    """Where a generator is: an attribute of a wrapper, counted from the outside, or of the environment within."""

    depth: int
    owner: str
    attribute: str


class Snapshot(NamedTuple):
    """A generator and a copy of its state."""

    generator: object
    state: dict[str, Any]


class Generators:
    """Those among the attributes of an environment and of its wrappers: numpy's, old and new, and Python's own.

    They are looked for when this is made; what reset puts in the same place later is found there.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self._env = env
        self._holders = [
            (Place(depth, type(layer).__name__, attribute), vars(layer))
            for depth, layer in enumerate(_layers(env))
            for attribute, value in vars(layer).items()
            if isinstance(value, _TYPES)
        ]

    def snapshots(self) -> dict[Place, Snapshot]:
        """All of them with their states."""
        found = {place: holder.get(place.attribute) for place, holder in self._holders}
        return {place: Snapshot(one, _state(one)) for place, one in found.items() if isinstance(one, _TYPES)}

    def states(self) -> dict[str, dict[str, Any]]:
        """``{depth: {attribute: state}}`` as a tree of dicts, arrays, numbers and strings."""
        tree: dict[str, dict[str, Any]] = {}
        for place, holder in self._holders:
            generator = holder.get(place.attribute)
            if isinstance(generator, _TYPES):
                tree.setdefault(str(place.depth), {})[place.attribute] = _state(generator)
        return tree

    def restore(self, tree: Mapping[str, Mapping[str, Any]]) -> bool:
        """Sets the generators to what ``states`` gave; False where there is none of that kind in that place."""
        layers = {str(depth): vars(layer) for depth, layer in enumerate(_layers(self._env))}
        for depth, attributes in tree.items():
            for attribute, state in attributes.items():
                generator = layers.get(depth, {}).get(attribute)
                if not isinstance(generator, _TYPES) or _kind(generator) != state.get("bit_generator"):
                    return False
                _set_state(generator, state)
        return True


def same(one: Any, other: Any) -> bool:
    """Whether two state trees are equal."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return bool(np.array_equal(one, other))
    return bool(one == other)


def _layers(env: gymnasium.Env[Any, Any]) -> Iterator[gymnasium.Env[Any, Any]]:
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
