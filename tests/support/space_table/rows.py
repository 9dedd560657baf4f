"""What the space table is made of, as data: algorithms, models, spaces, and an environment that has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    Graph,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Text,
    Tuple,
)

from rlcore.testing import Drawn

Space = gymnasium.Space[Any]


@dataclass(frozen=True, eq=False)
class Algorithm:
    """A column: the policy graph's name, the recipe that trains it, and what it is tried with."""

    graph: str
    recipe: Mapping[str, Any]
    #: Whether it has the setting ``model``.
    takes_model: bool = True
    #: Whether every pair of spaces is tried, or each space with one partner only.
    every_pair: bool = True


ALGORITHMS = (
    Algorithm("torch.pg", {"algorithm": "pg", "framework": "torch"}),
    Algorithm("torch.a3c", {"algorithm": "a2c", "framework": "torch"}),
    Algorithm(
        "torch.ppo",
        {
            "algorithm": "ppo",
            "framework": "torch",
            "optimizer": {"name": "multi_gpu", "epochs": 2, "minibatch_size": 16},
        },
    ),
    # TensorFlow traces every graph anew, which takes longer than all else.
    Algorithm("tf.pg", {"algorithm": "pg", "framework": "tf"}, every_pair=False),
    Algorithm("numpy.pg", {"algorithm": "pg", "framework": "numpy"}, takes_model=False),
)


@dataclass(frozen=True)
class Acted:
    """An action space, how it is acted in, and the mask that observations then have."""

    space: Space
    policy: Mapping[str, Any] = field(default_factory=dict)
    mask: Space | None = None


def box(low: Any, high: Any, dtype: Any = np.float32) -> Box:
    """A Box of these bounds, one for each number."""
    return Box(np.array(low, dtype), np.array(high, dtype), dtype=dtype)


def flags(*shape: int) -> Box:
    """A mask of as many flags."""
    return Box(0, 1, shape, np.int8)


SQUASH: Mapping[str, Any] = {"squash": True}
NESTED = Dict(
    arm=Tuple([Box(-1.0, 1.0, (2,), np.float32), Box(0.0, 10.0, (), np.float64)]),
    hand=Dict(grip=Discrete(2, start=1), fingers=MultiBinary(3)),
    mode=MultiDiscrete([[2, 3], [4, 5]]),
)

ACTIONS: Mapping[str, Acted] = {
    "Discrete": Acted(Discrete(3)),
    "Discrete with start": Acted(Discrete(3, start=-2)),
    "MultiDiscrete": Acted(MultiDiscrete([2, 3], start=[-1, 5])),
    "MultiDiscrete, 2-d": Acted(MultiDiscrete([[2, 3], [4, 5]])),
    "MultiBinary": Acted(MultiBinary((2, 2))),
    "Box, bounded": Acted(Box(-1.0, 1.0, (2,), np.float32)),
    "Box, half-bounded": Acted(box([0.0, -np.inf], [np.inf, 1.0])),
    "Box, unbounded": Acted(Box(-np.inf, np.inf, (2,), np.float32)),
    "Box, asymmetric": Acted(box([-1.0, 5.0], [3.0, 250.0])),
    "Box, float64": Acted(Box(-0.1, 0.7, (2,), np.float64)),
    "Box, float16": Acted(Box(-1.0, 1.0, (2, 2), np.float16)),
    "Box, integers": Acted(Box(-2, 2, (2,), np.int16)),
    "Box, squashed": Acted(Box(-1.0, 1.0, (2,), np.float32), SQUASH),
    "Box, asymmetric, squashed": Acted(box([-1.0, 5.0], [3.0, 250.0]), SQUASH),
    "Tuple": Acted(Tuple([Discrete(3), Box(-1.0, 1.0, (2,), np.float32)])),
    "Dict": Acted(Dict(arm=Box(-1.0, 1.0, (2,), np.float32), hand=MultiBinary(2))),
    "nested": Acted(NESTED),
    "nested, squashed": Acted(NESTED, SQUASH),
    "Discrete, masked": Acted(Discrete(4, start=1), mask=flags(4)),
    "MultiDiscrete, masked": Acted(MultiDiscrete([2, 3]), mask=flags(5)),
    "nested, masked by name": Acted(NESTED, mask=Dict(hand=Dict(grip=flags(2), fingers=flags(3, 2)))),
}

OBSERVATIONS: Mapping[str, Space] = {
    "Box": Box(-1.0, 1.0, (3,), np.float32),
    "image": Box(0, 255, (6, 5, 3), np.uint8),
    "Discrete": Discrete(4, start=7),
    "MultiDiscrete": MultiDiscrete([[2, 3], [4, 5]], start=[[0, -1], [2, 3]]),
    "MultiBinary": MultiBinary((2, 3)),
    "Dict": Dict(camera=Box(0, 255, (6, 5, 3), np.uint8), joints=Box(-1.0, 1.0, (4,), np.float64)),
    "Tuple": Tuple([Discrete(3), Box(-1.0, 1.0, (), np.float32)]),
    "nested": Dict(a=Dict(b=Tuple([MultiBinary(2), Discrete(2)]), c=MultiDiscrete([2, 3])), d=Box(0, 1, (1,))),
}

#: Spaces that no array of one shape holds, to be seen or to be acted in.
REFUSED: Mapping[str, Space] = {
    "Text": Text(8, charset="ab"),
    "Sequence": Sequence(Discrete(3)),
    "Graph": Graph(Box(0.0, 1.0, (2,)), Discrete(3)),
    "OneOf": OneOf([Discrete(2), Box(0.0, 1.0, (2,))]),
    "Dict with a Text": Dict(name=Text(4, charset="ab"), x=Box(0.0, 1.0, (2,))),
}

#: The picture that convolutional networks are made for; it stands in the table of models only.
PICTURE = "84x84 image"


@dataclass(frozen=True, eq=False)
class Model:
    """A row of the table of models: the setting ``model``, and what is seen and acted in with it."""

    settings: Mapping[str, Any]
    observed: str = "Box"
    acted: str = "Discrete"


#: The model of all other tables.
SMALL = Model({"hidden": [8]})
MODELS: Mapping[str, Model] = {
    "one layer": SMALL,
    "two layers, relu": Model({"hidden": [16, 8], "activation": "relu"}),
    "no hidden layer": Model({"hidden": []}),
    "shared values": Model({"hidden": [8], "shared_value": True}),
    "one layer, seeing pixels": Model({"hidden": [8], "encoder": "mlp"}, observed=PICTURE),
    "nature": Model({"encoder": "nature", "hidden": [8]}, observed=PICTURE),
    "nature, separate values": Model({"encoder": "nature", "hidden": [8], "shared_value": False}, observed=PICTURE),
    "impala": Model({"encoder": "impala", "hidden": [8]}, observed=PICTURE),
    "impala, nested spaces": Model({"encoder": "impala", "hidden": [8]}, "Dict", "nested, masked by name"),
    "lstm": Model({"hidden": [8], "lstm": 8}),
    "lstm, shared values": Model({"hidden": [8], "lstm": 8, "shared_value": True}),
    "lstm, nested spaces": Model({"hidden": [8], "lstm": 8}, observed="nested", acted="nested, masked by name"),
    "impala, lstm": Model({"encoder": "impala", "hidden": [8], "lstm": 8}, observed="image"),
    "bfloat16": Model({"hidden": [8], "precision": "bfloat16"}),
}


def observation_space(observed: str, acted: str) -> Space:
    """What is seen: the space of that name, beside the mask that ``acted`` comes with."""
    seen = {**OBSERVATIONS, **REFUSED, PICTURE: Box(0, 255, (84, 84, 1), np.uint8)}[observed]
    mask = ACTIONS[acted].mask if acted in ACTIONS else None
    return seen if mask is None else Dict(action_mask=mask, seen=seen)


def action_space(acted: str) -> Space:
    """What is acted in."""
    return ACTIONS[acted].space if acted in ACTIONS else REFUSED[acted]


def drawn(observed: str, acted: str, num_envs: int = 1) -> Drawn:
    """The environment of two named spaces, for configs that are written down."""
    return Drawn(observation_space(observed, acted), action_space(acted), num_envs)
