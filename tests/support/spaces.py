"""Spaces of every kind to test with: named ones, random ones, and an environment that has them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from hypothesis import strategies as st

from rlcore.columns import Columns, leaf_spaces

Space = gymnasium.Space[Any]


def box(low: Any, high: Any, dtype: Any = np.float32) -> Box:
    """A Box of these bounds, each a number or a nested list."""
    return Box(np.array(low, dtype), np.array(high, dtype), dtype=dtype)


#: Action spaces, one of each kind that is told apart anywhere.
ACTIONS: Mapping[str, Space] = {
    "discrete": Discrete(3),
    "discrete_from_2": Discrete(1, start=2),
    "discrete_small": Discrete(3, start=-2, dtype=np.int8),
    "multi_discrete": MultiDiscrete([2, 3], start=[-1, 5]),
    "multi_discrete_even": MultiDiscrete([3, 3, 3]),
    "multi_discrete_2d": MultiDiscrete([[2, 3], [4, 5]]),
    "multi_binary": MultiBinary((2, 2)),
    "box": box([-1.0, -2.0], [1.0, 3.0]),
    "box_scalar": Box(-1.0, 1.0, (), np.float32),
    "box_2d": Box(-1.0, 1.0, (2, 3), np.float32),
    "box_float64": Box(-0.1, 0.7, (2,), np.float64),
    "box_float16": Box(-1.0, 1.0, (2,), np.float16),
    "box_half_bounded": box([0.0, -np.inf], [np.inf, 1.0]),
    "box_unbounded": Box(-np.inf, np.inf, (2,), np.float32),
    "box_integers": Box(-2, 2, (2,), np.int16),
    "tuple": Tuple([Discrete(3), Box(-1.0, 1.0, (2,), np.float32)]),
    "nested": Dict(
        arm=Tuple([Box(-1.0, 1.0, (2,), np.float32), Box(0.0, 10.0, (), np.float64)]),
        hand=Dict(grip=Discrete(2, start=1), fingers=MultiBinary(3)),
        mode=MultiDiscrete([[2, 3], [4, 5]]),
    ),
}

#: Those that can be squashed: every Box in them is bounded.
SQUASHED = [name for name in ACTIONS if name not in ("box_half_bounded", "box_unbounded")]

#: Observation spaces.
OBSERVATIONS: Mapping[str, Space] = {
    "box": Box(-1.0, 1.0, (3,), np.float32),
    "box_scalar": Box(-1.0, 1.0, (), np.float64),
    "box_2d": Box(-5, 5, (2, 2), np.int32),
    "image": Box(0, 255, (6, 5, 3), np.uint8),
    "discrete": Discrete(4, start=7),
    "multi_discrete": MultiDiscrete([[2, 3], [4, 5]], start=[[0, -1], [2, 3]]),
    "multi_binary": MultiBinary((2, 3)),
    "dict": Dict(camera=Box(0, 255, (6, 5, 3), np.uint8), joints=Box(-1.0, 1.0, (4,), np.float32)),
    "tuple": Tuple([Discrete(3), Box(-1.0, 1.0, (), np.float32)]),
    "nested": Dict(a=Dict(b=Tuple([MultiBinary(2), Discrete(2)]), c=MultiDiscrete([2, 3])), d=Box(0, 1, (1,))),
}


def _sizes(most: int) -> st.SearchStrategy[Any]:
    return st.lists(st.integers(1, most), min_size=1, max_size=2).map(tuple)


@st.composite
def leaves(draw: Any, most: int = 4) -> Space:
    """A plain action space."""
    kind = draw(st.sampled_from(["discrete", "multi_discrete", "multi_binary", "box"]))
    if kind == "discrete":
        return Discrete(draw(st.integers(1, most)), start=draw(st.integers(-9, 9)))
    shape = draw(_sizes(3))
    if kind == "multi_binary":
        return MultiBinary(shape)
    size = int(np.prod(shape))
    if kind == "multi_discrete":
        nvec = draw(st.lists(st.integers(1, most), min_size=size, max_size=size))
        start = draw(st.lists(st.integers(-9, 9), min_size=size, max_size=size))
        return MultiDiscrete(np.reshape(nvec, shape), start=np.reshape(start, shape))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    low = np.array(draw(st.lists(st.integers(-9, 9), min_size=size, max_size=size)), dtype).reshape(shape)
    width = np.array(draw(st.lists(st.integers(1, 9), min_size=size, max_size=size)), dtype).reshape(shape)
    return Box(low, low + width, dtype=dtype)


def action_spaces() -> st.SearchStrategy[Space]:
    """Action spaces of any structure whose Boxes are bounded."""

    def nest(children: st.SearchStrategy[Space]) -> st.SearchStrategy[Space]:
        several = st.lists(children, min_size=1, max_size=3)
        return several.map(Tuple) | several.map(lambda parts: Dict({f"k{i}": part for i, part in enumerate(parts)}))

    return st.recursive(leaves(), nest, max_leaves=4)


def stacked(space: Space, values: list[Any]) -> Columns:
    """Elements of ``space`` as columns ``[n, ...]``."""
    columns = {}
    for leaf, child in leaf_spaces(space).items():
        parts = list(values)
        for key in filter(None, leaf.split(".")):
            parts = [part[int(key)] if isinstance(part, tuple) else part[key] for part in parts]
        columns[leaf] = np.array(parts, child.dtype)
    return columns[""] if set(columns) == {""} else columns


def samples(space: Space, n: int, seed: int = 0) -> Columns:
    """``n`` random elements of ``space``, small where they are unbounded."""
    space.seed(seed)
    return stacked(space, [space.sample() for _ in range(n)])


class Mirror(gymnasium.Env[Any, Any]):
    """Random observations of ``observed``, and actions of ``acted`` whose every element must be of the space.

    Episodes have five steps. ``received`` holds the actions as they came.
    """

    def __init__(self, observed: Space, acted: Space) -> None:
        # Copies: the random numbers of spaces are this environment's own.
        self.observation_space, self.action_space = copy.deepcopy(observed), copy.deepcopy(acted)
        self.received: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        self.t = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), f"{action!r} is not of {self.action_space}"
        self.received.append(action)
        self.t += 1
        return self.observation_space.sample(), 1.0, self.t == 5, False, {}


def mirror(observed: str, acted: str) -> Mirror:
    """The environment of two named spaces, for configs that are written down."""
    return Mirror(OBSERVATIONS[observed], ACTIONS[acted])
