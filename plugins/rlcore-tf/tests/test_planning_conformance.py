"""Policy graphs that plan, and their actors, held to the contracts of their kinds."""

from __future__ import annotations

from typing import Any

import pytest

from rlcore.testing.suites import ActorTests, PolicyGraphTests

#: Building a graph is slow in TensorFlow: those of a class are to be built once.
pytestmark = pytest.mark.xdist_group("rlcore-tf-planning-conformance")

#: A game, whose rules it plans with.
TICTACTOE = "batched:tictactoe"
SEARCH: dict[str, Any] = {"search": {"simulations": 8}, "model": {"hidden": [16], "shared_value": True}}
PLANNER = {"horizon": 3, "population": 8, "elites": 2, "iterations": 2}


class TestAlphaZero(PolicyGraphTests):
    graph = "tf.alphazero"
    env = TICTACTOE
    config = SEARCH


class TestAlphaZeroWithATower(PolicyGraphTests):
    graph = "tf.alphazero"
    env = TICTACTOE
    config = {
        "search": {"simulations": 4, "solver": False, "leaves": 2},
        "model": {"encoder": "tower", "tower": {"blocks": 1, "channels": 4}, "hidden": [8]},
    }
    excused = {
        "spaces_it_cannot_handle_are_refused_by_name": "an encoder that is asked for where there is no image is the "
        "config's mistake: ConfigError names the setting and the space"
    }


class TestAlphaZeroActor(ActorTests):
    graph = "tf.alphazero"
    env = TICTACTOE
    config = SEARCH


class TestDynamics(PolicyGraphTests):
    graph = "tf.dynamics"
    config = {"members": 2, "planner": PLANNER, "max_grad_norm": 1.0, "noise": 0.2}


class TestDynamicsActor(ActorTests):
    graph = "tf.dynamics"
    config = {"members": 2, "planner": PLANNER}
