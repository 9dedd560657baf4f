"""Spaces that columns can hold, those that they cannot, and the actions that environments receive."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Graph, MultiBinary, MultiDiscrete, OneOf, Sequence, Text, Tuple
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rlcore.columns import Columns, leaf_spaces
from rlcore.env import DEFAULT_GROUP
from rlcore.errors import EnvError, SpaceError
from rlcore.testing.environments import CountEnv
from rlcore_gym import InProcessEnv, VectorEnvAdapter


class Noting(CountEnv):
    """Acts in ``space``; ``received`` holds the actions as they came."""

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        super().__init__(100)
        self.action_space = space
        self.received: list[Any] = []

    def step(self, action: Any) -> Any:
        self.received.append(action)
        return super().step(action)


NESTED = Dict({"move": Tuple([Discrete(3, start=2), Box(-1, 1, (2, 3), np.float32)]), "keys": MultiBinary(4)})


@pytest.mark.parametrize(
    "space",
    [
        Discrete(3),
        Discrete(3, start=-2),
        Discrete(200, dtype=np.uint8),
        Box(-1, 1, (2, 3), np.float32),
        Box(-1, 1, (), np.float64),
        Box(0, 255, (4,), np.uint8),
        MultiDiscrete([2, 3]),
        MultiDiscrete([[2, 3], [4, 5]]),
        MultiBinary((2, 2)),
        NESTED,
    ],
    ids=str,
)
@pytest.mark.parametrize("vector", [False, True])
def test_B038_actions_arrive_as_the_space_has_them(space: gymnasium.Space[Any], vector: bool) -> None:
    envs = [Noting(space) for _ in range(3)]
    env = (
        VectorEnvAdapter(SyncVectorEnv([lambda one=one: one for one in envs]), "Toy")
        if vector
        else InProcessEnv(envs, "Toy")
    )
    space.seed(5)
    chosen = [space.sample() for _ in envs]
    env.reset(0)
    env.poll(None)
    env.send({DEFAULT_GROUP: (np.arange(3), columns(space, chosen))})
    env.poll(None)
    for one, wanted in zip(envs, chosen, strict=True):
        assert space.shape == () or space.contains(one.received[0])
        assert data_equivalence(one.received[0], wanted) or space.shape == ()
        assert space.shape != () or one.received[0] == wanted


def columns(space: gymnasium.Space[Any], values: list[Any]) -> Columns:
    leaves = {}
    for leaf, child in leaf_spaces(space).items():
        parts = list(values)
        for key in filter(None, leaf.split(".")):
            parts = [part[int(key)] if isinstance(part, tuple) else part[key] for part in parts]
        leaves[leaf] = np.array(parts, child.dtype)
    return leaves[""] if set(leaves) == {""} else leaves


def test_an_action_that_the_environment_changes_is_its_own() -> None:
    class Scribbling(Noting):
        def step(self, action: Any) -> Any:
            result = super().step(action.copy())
            action[:] = 9
            return result

    env = InProcessEnv([Scribbling(Box(-1, 1, (2,), np.float32)) for _ in range(2)], "Toy")
    env.reset(0)
    env.poll(None)
    actions = np.array([[0.5, 0.25], [-0.5, 1]], np.float32)
    env.send({DEFAULT_GROUP: (np.arange(2), actions)})
    env.poll(None)
    assert actions.tolist() == [[0.5, 0.25], [-0.5, 1]]
    state = env.get_state()
    assert state is not None
    assert state["actions"]["actions"].tolist() == [[0.5, 0.25], [-0.5, 1]]


def test_nested_actions_need_all_their_parts() -> None:
    env = InProcessEnv([Noting(NESTED)], "Toy")
    env.reset(0)
    env.poll(None)
    with pytest.raises(
        EnvError, match=r"actions have the parts \['keys'\], their space has 'keys', 'move.0', 'move.1'"
    ):
        env.send({DEFAULT_GROUP: (np.arange(1), {"keys": np.zeros((1, 4), np.int8)})})
    with pytest.raises(EnvError, match=r"actions 'move.1' of shape \(1, 3\), expected \(1, 2, 3\)"):
        given = {"keys": np.zeros((1, 4), np.int8), "move.0": np.zeros(1, np.int64), "move.1": np.zeros((1, 3))}
        env.send({DEFAULT_GROUP: (np.arange(1), given)})


@pytest.mark.parametrize("space", [NESTED, Discrete(3, start=2), Box(1, 2, (2,)), MultiDiscrete([2, 3], start=[5, 6])])
def test_ignored_actions_are_legal_nevertheless(space: gymnasium.Space[Any], play: Any) -> None:
    class Checking(Noting):
        def step(self, action: Any) -> Any:
            assert self.action_space.contains(action), action
            self.t += 1
            return self.observe(), 1.0, self.t >= 2, False, {}

    class Reporting(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            assert self.action_space.contains(actions), actions
            return super().step(actions)

    source = Reporting([lambda: Checking(space)] * 3, autoreset_mode=AutoresetMode.NEXT_STEP)
    assert play(VectorEnvAdapter(source, "Toy"), 9).returns == [[2.0] * 3] * 3


@pytest.mark.parametrize(
    "space",
    [
        Text(5),
        Graph(Box(0, 1, (2,)), None),
        Sequence(Discrete(3)),
        OneOf([Discrete(3), Box(0, 1, (2,))]),
    ],
    ids=lambda space: type(space).__name__,
)
def test_spaces_without_a_fixed_shape_are_refused_by_name(space: gymnasium.Space[Any]) -> None:
    env = CountEnv()
    env.observation_space = Dict({"a": Tuple([space]), "b": Discrete(2)})
    with pytest.raises(SpaceError, match=rf"^Toy: its observation space has the part 'a.0' {type(space).__name__}\("):
        InProcessEnv([env], "Toy")
    env = CountEnv()
    env.action_space = space
    with pytest.raises(SpaceError, match=r"^Toy: its action space is .*, which numpy columns cannot hold"):
        InProcessEnv([env], "Toy")


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 2)])
def test_observations_of_no_numbers_are_columns_too(shape: tuple[int, ...], play: Any) -> None:
    class Nothing(CountEnv):
        def __init__(self) -> None:
            super().__init__(100)
            self.observation_space = Dict({"none": Box(-1, 1, shape, np.float32), "n": Discrete(9)})

        def observe(self) -> Any:
            return {"none": np.zeros(shape, np.float32), "n": self.t}

    played = play(InProcessEnv([Nothing(), Nothing()], "Toy"), 2)
    assert [(obs["none"].shape, int(obs["n"])) for obs, *_ in played.transitions[1]] == [(shape, 0), (shape, 1)]


def test_other_spaces_that_are_refused() -> None:
    for space, message in (
        (None, "its observation space is None, not a gymnasium.Space"),
        (Dict({}), "is empty"),
        (Dict({"a.b": Discrete(2), "a": Dict({"b": Discrete(3)})}), "two parts of its observation space have the same"),
    ):
        env = CountEnv()
        env.observation_space = space
        with pytest.raises(SpaceError, match=message):
            InProcessEnv([env], "Toy")


def test_B043_a_custom_space_with_shape_and_type_is_a_column(play: Any) -> None:
    class Unit(gymnasium.Space[Any]):
        def __init__(self) -> None:
            super().__init__((2,), np.float32)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Unit)

        def __hash__(self) -> int:
            return 0

    class Custom(CountEnv):
        def __init__(self) -> None:
            super().__init__(100)
            self.observation_space = Dict({"unit": Unit(), "n": Discrete(9)})

        def observe(self) -> Any:
            return {"unit": np.full(2, self.t, np.float32), "n": self.t}

    played = play(InProcessEnv([Custom(), Custom()], "Toy"), 3)
    assert [(obs["unit"].tolist(), int(obs["n"])) for obs, *_ in played.transitions[1]] == [
        ([0, 0], 0),
        ([1, 1], 1),
        ([2, 2], 2),
    ]


def test_nested_observations_of_vector_environments(play: Any) -> None:
    space = Dict({"z.dotted": Discrete(50), "a": Tuple([Box(-9, 99, (2,), np.float32), MultiBinary(1)])})

    class Nested(CountEnv):
        def __init__(self) -> None:
            super().__init__(3)
            self.observation_space = space

        def observe(self) -> Any:
            pair = (np.full(2, 10 + self.t, np.float32), np.array([self.t % 2], np.int8))
            return {"a": pair, "z.dotted": 10 + self.t}

    for mode in AutoresetMode:
        source = SyncVectorEnv([Nested, Nested], autoreset_mode=mode)
        played = play(VectorEnvAdapter(source, "Toy"), 9)
        own = [
            (obs["z.dotted"].item(), obs["a.0"].tolist(), after["a.0"][0]) for obs, *_, after in played.transitions[1]
        ]
        assert own[:4] == [(10, [10, 10], 11), (11, [11, 11], 12), (12, [12, 12], 13), (10, [10, 10], 11)], mode
