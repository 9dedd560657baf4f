"""Recurrent, shared and convolutional models held to the contract of policy graphs, and their actors to theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple

from rlcore.env import Spaces
from rlcore.testing.suites import ActorTests, PolicyGraphTests

VECTOR = Box(-2.0, 2.0, (5,), np.float32)
PAIR = Box(-1.0, 1.0, (2,), np.float32)
MASKED = Dict({"place": VECTOR, "action_mask": MultiBinary(4)})
VECTORS: list[Spaces] = [(VECTOR, Discrete(3, start=1)), (VECTOR, PAIR), (MASKED, Discrete(4))]
IMAGES: list[Spaces] = [
    (Box(0, 255, (36, 36, 1), np.uint8), Discrete(3)),
    (Dict({"eye": Box(0, 255, (2, 36, 36), np.uint8), "place": VECTOR}), Tuple([Discrete(2), PAIR])),
]
LSTM: dict[str, Any] = {"hidden": [8], "lstm": 6}
SHARED: dict[str, Any] = {"hidden": [8], "shared_value": True}


class TestRecurrentPG(PolicyGraphTests):
    graph = "torch.pg"
    config = {"model": LSTM}
    spaces = VECTORS


class TestRecurrentA3C(PolicyGraphTests):
    graph = "torch.a3c"
    config = {"model": LSTM}
    spaces = VECTORS


class TestRecurrentPPO(PolicyGraphTests):
    graph = "torch.ppo"
    config = {"model": LSTM}
    spaces = VECTORS


class TestRecurrentAndSharedPPO(PolicyGraphTests):
    graph = "torch.ppo"
    config = {"model": {**LSTM, "shared_value": True}, "squash": True}
    spaces = VECTORS


class TestRecurrentPPOActor(ActorTests):
    graph = "torch.ppo"
    config = {"model": LSTM}
    spaces = VECTORS


class TestRecurrentIMPALA(PolicyGraphTests):
    graph = "torch.impala"
    config = {"model": LSTM}
    spaces = VECTORS


class TestRecurrentIMPALAActor(ActorTests):
    graph = "torch.impala"
    config = {"model": LSTM}
    spaces = VECTORS


class TestRecurrentAndSharedAPPO(PolicyGraphTests):
    graph = "torch.appo"
    config = {"model": {**LSTM, "shared_value": True}}
    spaces = VECTORS


class TestSharedIMPALA(PolicyGraphTests):
    graph = "torch.impala"
    config = {"model": SHARED}
    spaces = VECTORS


class TestSharedIMPALAActor(ActorTests):
    graph = "torch.impala"
    config = {"model": SHARED}
    spaces = VECTORS


class TestSharedPG(PolicyGraphTests):
    graph = "torch.pg"
    config = {"model": SHARED}
    spaces = VECTORS


class TestSharedA3C(PolicyGraphTests):
    graph = "torch.a3c"
    config = {"model": SHARED}
    spaces = VECTORS


class TestSharedPPO(PolicyGraphTests):
    graph = "torch.ppo"
    config = {"model": SHARED}
    spaces = VECTORS


class TestSharedA3CActor(ActorTests):
    graph = "torch.a3c"
    config = {"model": SHARED}
    spaces = VECTORS


class TestNaturePG(PolicyGraphTests):
    graph = "torch.pg"
    config = {"model": {"hidden": [8]}}
    spaces = IMAGES


class TestNatureA3C(PolicyGraphTests):
    graph = "torch.a3c"
    config = {"model": {"hidden": [8]}}
    spaces = IMAGES


class TestNaturePPO(PolicyGraphTests):
    graph = "torch.ppo"
    config = {"model": {"hidden": [8], "lstm": 4}}
    spaces = IMAGES


class TestNatureIMPALA(PolicyGraphTests):
    graph = "torch.impala"
    config = {"model": {"hidden": [8], "lstm": 4}}
    spaces = IMAGES


class TestNatureAPPO(PolicyGraphTests):
    graph = "torch.appo"
    config = {"model": {"hidden": [8], "shared_value": False}}
    spaces = IMAGES


class TestConvolutionalDQN(PolicyGraphTests):
    graph = "torch.dqn"
    config = {"model": {"hidden": [8]}, "dueling": True}
    spaces = [(IMAGES[0][0], Discrete(3)), (IMAGES[1][0], Discrete(3))]


class TestConvolutionalTD3(PolicyGraphTests):
    graph = "torch.td3"
    config = {"model": {"hidden": [8]}, "initial_priorities": True}
    spaces = [(IMAGES[1][0], PAIR)]


class TestConvolutionalSAC(PolicyGraphTests):
    graph = "torch.sac"
    config = {"model": {"hidden": [8]}}
    spaces = [IMAGES[0], (IMAGES[1][0], PAIR)]
