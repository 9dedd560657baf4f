"""The package and each of its environments, held to the contract."""

from __future__ import annotations

from rlcore.testing.suites import EnvTests, PluginTests


class TestPackage(PluginTests):
    distribution = "rlcore-batched"


class TestCartPole(EnvTests):
    env = "batched:cartpole"


class TestPendulum(EnvTests):
    env = "batched:pendulum"


class TestPendulumWithShortEpisodes(EnvTests):
    env = "batched:pendulum"
    settings = {"time_limit": 11}


class TestAcrobot(EnvTests):
    env = "batched:acrobot"
    settings = {"time_limit": 30}


class TestMountainCar(EnvTests):
    env = "batched:mountaincar"


class TestGridWorld(EnvTests):
    env = "batched:gridworld"


class TestSlipperyGridWorld(EnvTests):
    env = "batched:gridworld"
    settings = {"slip": 0.3, "time_limit": 20}


class TestCatch(EnvTests):
    env = "batched:catch"


class TestCatchInLargePictures(EnvTests):
    env = "batched:catch"
    settings = {"rows": 7, "columns": 7, "block": 12}


class TestPong(EnvTests):
    env = "batched:pong"
    settings = {"points": 1}


class TestPongWithShuffledSeats(EnvTests):
    env = "batched:pong"
    settings = {"points": 1, "shuffle_seats": True}


class TestTicTacToe(EnvTests):
    env = "batched:tictactoe"


class TestTicTacToeWithShuffledSeats(EnvTests):
    env = "batched:tictactoe"
    settings = {"shuffle_seats": True}


class TestConnectFour(EnvTests):
    env = "batched:connect_four"
