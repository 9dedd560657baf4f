"""Distributions over nested actions, and the one function that says which distribution acts in a space."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore.acting.distributions import (
    Categorical,
    DiagonalGaussian,
    Distribution,
    Draw,
    Float32,
    MultiCategorical,
    SquashedGaussian,
)
from rlcore.acting.refusals import check_options, refusal, shown
from rlcore.columns import Array, Columns, column_name, leaf_spaces
from rlcore.errors import BatchError, SpaceError


class Product(Distribution):
    """Independent ``parts`` by leaf: log-probability and entropy are the sums of theirs, actions ``{leaf: array}``.

    Parameters are the parts' outputs, one part after the other, then their free parameters in the same order. A row
    column that the draws of a part bring along is called as it is there, with the leaf behind it: ``pre_tanh.arm``.
    """

    def __init__(self, parts: Mapping[str, Distribution]) -> None:
        self.parts = dict(parts)
        self.outputs = sum(part.outputs for part in parts.values())
        self.parameters = sum(part.parameters for part in parts.values())
        self.choices = tuple(n for part in parts.values() for n in part.choices)
        self.extras = tuple(column_name(name, leaf) for leaf, part in parts.items() for name in part.extras)
        #: Which of the parameters are those of each part.
        self.columns: dict[str, slice | NDArray[np.int64]] = {}
        logits, at, free = [], 0, self.outputs
        for leaf, part in parts.items():
            own = np.arange(at, at + part.outputs)
            logits.append(own[part.logits])
            tail = np.arange(free, free + part.free)
            self.columns[leaf] = np.concatenate([own, tail]) if part.free else slice(at, at + part.outputs)
            at, free = at + part.outputs, free + part.free
        self.logits = _as_slice(np.concatenate(logits))

    def split(self, params: Array) -> dict[str, Array]:
        """The parameters of each part, ``[n, part's parameters]``."""
        return {leaf: params[:, columns] for leaf, columns in self.columns.items()}

    def draw(self, params: Array, rng: np.random.Generator) -> Draw:
        return self._joined({leaf: self.parts[leaf].draw(own, rng) for leaf, own in self.split(params).items()})

    def mode(self, params: Array) -> Draw:
        return self._joined({leaf: self.parts[leaf].mode(own) for leaf, own in self.split(params).items()})

    def _joined(self, draws: Mapping[str, Draw]) -> Draw:
        actions: dict[str, Array] = {}
        extras: dict[str, Array] = {}
        for leaf, draw in draws.items():
            assert not isinstance(draw.actions, dict)
            actions[leaf] = draw.actions
            extras.update({column_name(name, leaf): column for name, column in draw.extras.items()})
        return Draw(actions, _sum([draw.logp for draw in draws.values()]), extras)

    def log_prob(self, params: Array, actions: Columns, extras: Mapping[str, Array]) -> Float32:
        drawn = self._drawn(actions, extras)
        return _sum(
            [
                part.log_prob(own, *drawn[leaf])
                for (leaf, part), own in zip(self.parts.items(), self.split(params).values(), strict=True)
            ]
        )

    def sampled(self, actions: Columns, extras: Mapping[str, Array]) -> Array:
        """int64 where all parts are discrete; else float32, which holds the index of any action that a network has an
        output for."""
        drawn = self._drawn(actions, extras)
        columns = [part.sampled(*drawn[leaf]) for leaf, part in self.parts.items()]
        discrete = all(column.dtype == np.int64 for column in columns)
        return np.concatenate(columns, axis=1, dtype=np.int64 if discrete else np.float32, casting="unsafe")

    def _drawn(self, actions: Columns, extras: Mapping[str, Array]) -> dict[str, tuple[Array, dict[str, Array]]]:
        """The actions of each part, and what was drawn beside them. ``BatchError`` where something is missing."""
        if not isinstance(actions, dict) or actions.keys() != self.parts.keys():
            given = f"the parts {', '.join(actions)}" if isinstance(actions, dict) else "one array"
            raise BatchError(f"expected actions with the parts {', '.join(self.parts)}, not {given}")
        missing = [name for name in self.extras if name not in extras]
        if missing:
            raise BatchError(f"the log-probability of these actions needs the columns {', '.join(missing)}")
        return {
            leaf: (actions[leaf], {name: extras[column_name(name, leaf)] for name in part.extras})
            for leaf, part in self.parts.items()
        }

    def entropy(self, params: Array) -> Float32:
        return _sum([self.parts[leaf].entropy(own) for leaf, own in self.split(params).items()])


def _sum(parts: list[Float32]) -> Float32:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _as_slice(index: NDArray[np.int64]) -> slice | NDArray[np.int64]:
    """A slice where the numbers follow each other: it is read without a copy."""
    if len(index) and index[-1] - index[0] + 1 == len(index):
        return slice(int(index[0]), int(index[-1]) + 1)
    return index if len(index) else slice(0, 0)


def distribution_for(action_space: gymnasium.Space[Any], squash: bool) -> Distribution:
    """The distribution that acts in ``action_space``; ``squash`` chooses squashed Gaussians for its Boxes.

    ============= ==================================================== ==============================
    space         distribution                                         actions
    ============= ==================================================== ==============================
    Discrete      :class:`Categorical`                                 int64 ``[n]`` from 0
    MultiDiscrete :class:`MultiCategorical`                            int64 ``[n, *shape]`` from 0
    MultiBinary   :class:`MultiCategorical` with two options for a bit int64 ``[n, *shape]``, 0 and 1
    Box           :class:`DiagonalGaussian`, :class:`SquashedGaussian` float32 ``[n, *shape]``
    Dict, Tuple   :class:`Product` of those of its leaves              ``{leaf: array}``
    ============= ==================================================== ==============================

    Integer Boxes are acted in by Gaussians too, whose draws are rounded on the way to the environment; a Box with a few
    values is better declared as MultiDiscrete. Raises ``SpaceError`` naming the part that cannot be acted in.
    """
    leaves = leaf_spaces(action_space)
    if set(leaves) == {""}:
        return _of_leaf("", action_space, squash)
    if not leaves:
        raise SpaceError(f"action space {shown(action_space)} is empty: there is nothing to do")
    return Product({leaf: _of_leaf(leaf, space, squash) for leaf, space in leaves.items()})


def _of_leaf(leaf: str, space: gymnasium.Space[Any], squash: bool) -> Distribution:
    check_options("action", leaf, space)
    if isinstance(space, spaces.Discrete):
        return Categorical(int(space.n))
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.size:
        return MultiCategorical(space.nvec)
    if isinstance(space, spaces.MultiBinary):
        return MultiCategorical(np.full(space.shape, 2))
    if not isinstance(space, spaces.Box) or not math.prod(space.shape):
        raise refusal("action", leaf, space)
    if not squash:
        return DiagonalGaussian(math.prod(space.shape), space.shape)
    try:
        return SquashedGaussian(space.low, space.high)
    except SpaceError as error:
        raise SpaceError(f"action {leaf or 'space'} {shown(space)}: {error}") from None
