"""Relay and Territory, held to the contract, and what they pay."""

from __future__ import annotations

import numpy as np
import pytest

from rlcore.testing.suites import EnvTests
from rlcore_multiagent.games import Relay, Territory


class TestRelay(EnvTests):
    env = "rlcore_multiagent.games:Relay"
    settings = {"length": 4}


class TestTerritory(EnvTests):
    env = "rlcore_multiagent.games:Territory"
    settings = {"length": 3}


def test_relay_pays_half_a_point_for_each_who_did_right() -> None:
    env = Relay(2, length=2, luck=0.0)
    env.reset(5)
    opening = env.poll(None)["default"].obs.reshape(2, 2, 6)  # type: ignore[union-attr]
    cues = opening[:, 0, 2].astype(int)
    # The first sender answers its cue, the second does not.
    env.send({"default": (np.repeat([0, 1], 2), np.array([cues[0], 0, 1 - cues[1], 0]))})
    shown = env.poll(None)["default"].obs.reshape(2, 2, 6)  # type: ignore[union-attr]
    assert shown[:, 1, 3:5].tolist() == [[1, 0], [0, 1]] and not shown[:, 0, 1:].any()
    env.send({"default": (np.repeat([0, 1], 2), np.array([0, 1, 0, 1]))})
    last = env.poll(None)["default"]
    assert last.reward.tolist() == [1.0, 1.0, 0.0, 0.0] and last.terminated.all()


def test_territory_pays_the_team_with_more_agents_on_a_field() -> None:
    env = Territory(1)
    env.reset(1)
    values = env.poll(None)["default"].obs[0, :3]  # type: ignore[index]
    env.send({"default": (np.zeros(4, np.int64), np.array([0, 0, 0, 1]))})
    paid = env.poll(None)["default"].reward
    np.testing.assert_allclose(paid, (values[0] - values[1]) * np.array([1, 1, -1, -1]), rtol=1e-6)


def test_settings_that_make_no_game() -> None:
    with pytest.raises(ValueError, match="Relay: length is 2 or more"):
        Relay(1, length=1)
    with pytest.raises(ValueError, match="Territory: length is 1 or more"):
        Territory(1, length=0)
