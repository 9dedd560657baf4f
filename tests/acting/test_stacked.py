"""Many members that act at once: worked by hand, and against each of them acting alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rlcore.acting import ActorCriticActor, Architecture, ModelConfig, stack
from rlcore.acting.networks import ACTIVATIONS, through_stacked
from rlcore.acting.stacked import Copies, StackedMLPs
from rlcore.columns import map_columns, take
from rlcore.policy_graph import ActRows

OBS = spaces.Box(-10.0, 10.0, (3,), np.float32)
MASKED = spaces.Dict({"sight": OBS, "action_mask": spaces.MultiBinary(4)})
MODEL = ModelConfig(hidden=(7, 5))
MEMBERS = 4


def rows(n: int) -> ActRows:
    return ActRows(np.arange(n), np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.bool_))


def make(obs_space: Any, action_space: Any, model: ModelConfig, seed: int, **settings: Any) -> ActorCriticActor:
    weights = Architecture.of(obs_space, action_space, model, **settings).init(np.random.default_rng(seed))
    # Last layers begin so small that all members would do nearly the same.
    weights = {name: array * np.float32(50.0 if ".out." in name else 1.0) for name, array in weights.items()}
    return ActorCriticActor(obs_space, action_space, model, weights, **settings)


def weights_of(actors: list[ActorCriticActor], names: frozenset[str]) -> dict[str, Any]:
    return {name: np.stack([actor.get_state()["weights"][name] for actor in actors]) for name in names}


@pytest.mark.parametrize(
    ("activation", "expected"),
    [("relu", [[[8.0], [2.0]], [[-1.0], [5.0]]]), ("tanh", [[[2.0 + 3 * np.tanh(2.0)]], [[-1.0 + 2 * np.tanh(3.0)]]])],
)
def test_layers_by_hand(activation: str, expected: Any) -> None:
    layers = [
        (np.array([[[1.0]], [[-1.0]]], np.float32), np.array([[[0.0]], [[1.0]]], np.float32)),
        (np.array([[[3.0]], [[2.0]]], np.float32), np.array([[[2.0]], [[-1.0]]], np.float32)),
    ]
    # Of the first network 2 and -3, of the second 4 (which is relu(1 - 4)) and -2.
    x = np.array([[[2.0], [-3.0]], [[4.0], [-2.0]]], np.float32)
    if activation == "tanh":
        x = np.array([[[2.0]], [[-2.0]]], np.float32)
    before = x.copy()
    found = through_stacked(x, layers, ACTIVATIONS[activation])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(x, before)


def test_members_by_hand() -> None:
    """Without hidden layers an action is ``obs @ weight + bias``."""
    line = spaces.Box(-10.0, 10.0, (1,), np.float32)
    members = stack(make(line, line, ModelConfig(hidden=()), 0), 2)
    assert isinstance(members, StackedMLPs)
    assert members.reads == {"policy.out.weight", "policy.out.bias"}
    weights = np.array([[[2.0]], [[-1.0]]], np.float32)
    members.set_weights(np.arange(2), {"policy.out.weight": weights, "policy.out.bias": np.array([[1.0], [0.5]])})
    obs = np.array([[3.0], [3.0]], np.float32)
    actions, state = members.act(obs, (), None, rows(2))
    assert actions.tolist() == [[7.0], [-2.5]] and state == ()
    members.set_weights(np.array([1]), {"policy.out.weight": weights[:1], "policy.out.bias": np.array([[0.0]])})
    assert members.act(obs, (), None, rows(2))[0].tolist() == [[7.0], [6.0]]
    # Any rows of any members, in their order.
    obs = np.array([[1.0], [2.0], [3.0]], np.float32)
    assert members.act(obs, (), np.array([1, 0, 1]), rows(3))[0].tolist() == [[2.0], [5.0], [6.0]]


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize(
    ("obs_space", "action_space", "squash"),
    [
        (OBS, spaces.Discrete(4, start=2), False),
        (OBS, spaces.MultiDiscrete([3, 4]), False),
        (OBS, spaces.Box(-2.0, 1.0, (2,), np.float32), False),
        (OBS, spaces.Box(-2.0, 1.0, (2,), np.float32), True),
        (OBS, spaces.Dict({"go": spaces.Discrete(3), "by": spaces.Box(-1.0, 1.0, (2,), np.float32)}), False),
        (MASKED, spaces.Discrete(4), False),
    ],
    ids=["discrete", "multi-discrete", "box", "squashed", "nested", "masked"],
)
def test_members_do_what_each_does_alone(obs_space: Any, action_space: Any, squash: bool, value: bool) -> None:
    actors = [make(obs_space, action_space, MODEL, seed, squash=squash, value=value) for seed in range(MEMBERS)]
    members, copies = stack(actors[0], MEMBERS), Copies(list(actors))
    assert isinstance(members, StackedMLPs)
    members.set_weights(np.arange(MEMBERS), weights_of(actors, members.reads))
    rng = np.random.default_rng(1)
    for member in (None, np.array([3, 0, 0, 2, 3, 3, 1]), np.array([2])):
        n = MEMBERS if member is None else len(member)
        obs: Any = rng.normal(size=(n, 3)).astype(np.float32)
        if obs_space is MASKED:
            mask = rng.integers(0, 2, (n, 4)).astype(np.int8)
            mask[np.arange(n), rng.integers(0, 4, n)] = 1
            obs = {"sight": obs, "action_mask": mask}
        found, _ = members.act(obs, (), member, rows(n))
        alone = copies.act(obs, (), member, rows(n))[0]
        for i in range(n):
            actor = actors[i if member is None else member[i]]
            one = actor.act(take(obs, np.array([i])), explore=False, rng=rng, rows=rows(1)).actions
            assert_alike(take(found, np.array([i])), one)
            assert_alike(take(alone, np.array([i])), one)


def assert_alike(found: Any, expected: Any) -> None:
    """Equal where they are discrete, else to rounding."""

    def check(one: Any, other: Any) -> Any:
        assert one.dtype == other.dtype and one.shape == other.shape
        exact = np.issubdtype(one.dtype, np.integer)
        np.testing.assert_allclose(one, other, rtol=0 if exact else 1e-5, atol=0 if exact else 1e-5)
        return one

    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for leaf, own in expected.items():
            check(found[leaf], own)
    else:
        map_columns(lambda one: check(one, expected), found)


def test_what_cannot_be_stacked_is_copied() -> None:
    model = ModelConfig(hidden=(6,), lstm=5)
    actors = [make(OBS, spaces.Discrete(5), model, seed) for seed in range(3)]
    members = stack(actors[0], 3)
    assert isinstance(members, Copies)
    members.set_weights(np.arange(3), weights_of(actors, members.reads))
    rng = np.random.default_rng(0)
    member = np.array([2, 0, 1, 2])
    state, states = members.initial_state(4), [actors[i].initial_state(1) for i in member]
    for _ in range(3):
        obs = rng.normal(size=(4, 3)).astype(np.float32)
        actions, state = members.act(obs, state, member, rows(4))
        for i, own in enumerate(member):
            out = actors[own].act(obs[i : i + 1], states[i], rows=rows(1), explore=False, rng=rng)
            assert out.actions[0] == actions[i]
            states[i] = out.state
            for part, one in zip(state, out.state, strict=True):
                np.testing.assert_allclose(part[i : i + 1], one, rtol=1e-5, atol=1e-6)


def test_copies_of_what_cannot_be_pickled_are_built() -> None:
    class Local(ActorCriticActor):
        def stacked(self, members: int) -> None:
            return None

    def build() -> Local:
        weights = Architecture.of(OBS, spaces.Discrete(2), MODEL).init(np.random.default_rng(0))
        return Local(OBS, spaces.Discrete(2), MODEL, weights)

    members = stack(build(), 2, build)
    assert isinstance(members, Copies)
    weights = weights_of([build(), build()], members.reads)
    weights["policy.out.bias"] = np.array([[9.0, 0.0], [0.0, 9.0]], np.float32)
    members.set_weights(np.arange(2), weights)
    assert members.act(np.zeros((2, 3), np.float32), (), None, rows(2))[0].tolist() == [0, 1]
