"""The package and environments of each kind that it adapts, held to the contract."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from rlcore.testing.suites import EnvTests, PluginTests

needs_pettingzoo = pytest.mark.skipif(find_spec("pettingzoo") is None, reason="PettingZoo is not installed")
needs_mpe = pytest.mark.skipif(find_spec("mpe2") is None, reason="mpe2 is not installed")
needs_openspiel = pytest.mark.skipif(find_spec("pyspiel") is None, reason="OpenSpiel is not installed")


class TestPackage(PluginTests):
    distribution = "rlcore-multiagent"


@needs_mpe
class TestParallel(EnvTests):
    env = "pettingzoo:mpe2.simple_spread_v3"
    settings = {"max_cycles": 10}
    polls = 60


@needs_mpe
class TestTwoGroups(EnvTests):
    env = "pettingzoo:mpe2.simple_tag_v3"
    settings = {"max_cycles": 8}
    polls = 60


@needs_pettingzoo
class TestInTurns(EnvTests):
    env = "pettingzoo:classic.tictactoe_v3"
    polls = 60


@needs_openspiel
class TestOpenSpielInTurns(EnvTests):
    env = "openspiel:tic_tac_toe"
    settings = {"shuffle_seats": True}
    polls = 60


@needs_openspiel
class TestOpenSpielWithChance(EnvTests):
    env = "openspiel:kuhn_poker"
    settings = {"players": 3}
    polls = 60


@needs_openspiel
class TestOpenSpielAtOnce(EnvTests):
    env = "openspiel:goofspiel"
    settings = {"num_cards": 4, "imp_info": True}
    polls = 60


@needs_openspiel
class TestOpenSpielToPlanWithChance(EnvTests):
    env = "openspiel:pig"
    settings = {"players": 3, "winscore": 8, "horizon": 30}
    polls = 60
