"""Recurrent, shared and convolutional models held to the contract of policy graphs, and their actors to theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple

from rlcore.env import Spaces
from rlcore.testing.suites import ActorTests, PolicyGraphTests

pytestmark = pytest.mark.xdist_group("rlcore-tf-models")

VECTOR = Box(-2.0, 2.0, (5,), np.float32)
PAIR = Box(-1.0, 1.0, (2,), np.float32)
MASKED: list[Spaces] = [(Dict({"place": VECTOR, "action_mask": MultiBinary(4)}), Discrete(4))]
IMAGES: list[Spaces] = [
    (Dict({"eye": Box(0, 255, (2, 36, 36), np.uint8), "place": VECTOR}), Tuple([Discrete(2), PAIR])),
]
LSTM: dict[str, Any] = {"hidden": [8], "lstm": 6}


class TestRecurrentPPO(PolicyGraphTests):
    graph = "tf.ppo"
    config = {"model": LSTM}
    spaces = MASKED


class TestRecurrentPPOActor(ActorTests):
    graph = "tf.ppo"
    config = {"model": LSTM}
    spaces = MASKED


class TestRecurrentAndSharedIMPALA(PolicyGraphTests):
    graph = "tf.impala"
    config = {"model": {**LSTM, "shared_value": True}}
    spaces = [(VECTOR, PAIR)]


class TestRecurrentIMPALAActor(ActorTests):
    graph = "tf.impala"
    config = {"model": LSTM}
    spaces = MASKED


class TestRecurrentPG(PolicyGraphTests):
    graph = "tf.pg"
    config = {"model": LSTM}
    spaces = MASKED


class TestSharedA3C(PolicyGraphTests):
    graph = "tf.a3c"
    config = {"model": {"hidden": [8], "shared_value": True}}
    spaces = MASKED


class TestSharedA3CActor(ActorTests):
    graph = "tf.a3c"
    config = {"model": {"hidden": [8], "shared_value": True}}
    spaces = MASKED


class TestNaturePPO(PolicyGraphTests):
    graph = "tf.ppo"
    config = {"model": {"hidden": [8], "lstm": 4}}
    spaces = IMAGES


class TestNatureAPPO(PolicyGraphTests):
    graph = "tf.appo"
    config = {"model": {"hidden": [8], "shared_value": False}}
    spaces = IMAGES
