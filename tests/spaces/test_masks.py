"""Action masks: how they are laid out, that they are no feature, and what becomes of one that allows nothing."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from hypothesis import given, settings
from hypothesis import strategies as st
from support.spaces import ACTIONS, action_spaces

from rlcore.acting import (
    ActorCriticActor,
    Architecture,
    FlatObs,
    ModelConfig,
    distribution_for,
    mask_for,
)
from rlcore.columns import leaf_spaces
from rlcore.errors import NoLegalActionError, SpaceError
from rlcore.policy_graph import ActRows

FEATURES = Box(-1.0, 1.0, (2,), np.float32)


def flags(*shape: int) -> Box:
    return Box(0, 1, shape, np.int8)


def observed(mask: Any) -> Dict:
    return Dict(features=FEATURES, action_mask=mask)


def rows(slots: list[int], steps: list[int]) -> ActRows:
    n = len(slots)
    return ActRows(np.array(slots), np.zeros(n, np.int32), np.array(steps), np.array(steps) == 0)


@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.bool_, np.uint8])
def test_a_mask_of_any_type_is_read_as_flags(dtype: Any) -> None:
    mask = mask_for(observed(Box(0, 1, (3,), dtype)), Discrete(3, start=5))
    assert mask is not None and mask.size == 3
    obs = {"features": np.zeros((2, 2)), "action_mask": np.array([[0, 1, 1], [1, 0, 0]], dtype)}
    assert mask.read(obs).tolist() == [[False, True, True], [True, False, False]]
    assert mask.read(obs).dtype == np.bool_


@pytest.mark.parametrize(
    ("acted", "mask", "given", "expected"),
    [
        (MultiDiscrete([2, 3]), flags(5), {"action_mask": [1, 0, 1, 1, 0]}, [1, 0, 1, 1, 0]),
        (MultiDiscrete([2, 2]), flags(2, 2), {"action_mask": [[1, 0], [1, 1]]}, [1, 0, 1, 1]),
        (
            MultiDiscrete([2, 3]),
            Tuple([flags(2), flags(3)]),
            {"action_mask.0": [1, 0], "action_mask.1": [0, 1, 0]},
            [1, 0, 0, 1, 0],
        ),
        (MultiBinary(2), flags(2, 2), {"action_mask": [[1, 0], [1, 1]]}, [1, 0, 1, 1]),
        (Tuple([Discrete(2), FEATURES, Discrete(2)]), flags(4), {"action_mask": [0, 1, 1, 0]}, [0, 1, 1, 0]),
        (
            Dict(arm=FEATURES, hand=Tuple([Discrete(2), MultiDiscrete([2, 1])]), mode=Discrete(3)),
            Dict(mode=flags(3), hand=Tuple([flags(2)])),
            {"action_mask.mode": [0, 0, 1], "action_mask.hand.0": [0, 1]},
            [0, 1, 1, 1, 1, 0, 0, 1],
        ),
        (
            Dict(hand=Discrete(2), mode=MultiDiscrete([2, 2])),
            Dict(hand=flags(2), mode=Tuple([flags(2), flags(2)])),
            {"action_mask.hand": [0, 1], "action_mask.mode.0": [1, 0], "action_mask.mode.1": [1, 1]},
            [0, 1, 1, 0, 1, 1],
        ),
    ],
    ids=["flat", "by component", "tuple", "bits", "nested flat", "nested by name", "nested tuple"],
)
def test_layouts(acted: Any, mask: Any, given: dict[str, Any], expected: list[int]) -> None:
    reader = mask_for(observed(mask), acted)
    assert reader is not None
    obs = {"features": np.zeros((2, 2)), **{name: np.array([flags, flags]) for name, flags in given.items()}}
    assert reader.read(obs).astype(int).tolist() == [expected, expected]
    assert reader.size == len(expected) == sum(distribution_for(acted, squash=False).choices)


@pytest.mark.parametrize(
    ("acted", "mask", "message"),
    [
        (Discrete(3), flags(4), r"action_mask has 4 flags, the action space Discrete\(3\) needs 3"),
        (MultiBinary(2), flags(2), "needs 4: .*two .may be 0, may be 1. for each bit"),
        (FEATURES, flags(2), "no discrete part that it could mask"),
        (Discrete(3), Discrete(3), "action_mask is Discrete.*not an array of flags"),
        (Dict(a=Discrete(2)), Dict(b=flags(2)), "no part of the action space is masked by action_mask.b"),
        (Dict(a=Discrete(2)), Dict(a=flags(3)), "action_mask.a has 3 flags, the action 'a' needs 2"),
        (Dict(a=Discrete(2), b=FEATURES), Dict(b=flags(2)), "the action 'b' needs 0"),
    ],
)
def test_masks_that_do_not_fit_are_refused_when_built(acted: Any, mask: Any, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        mask_for(observed(mask), acted)


def test_only_the_key_of_a_dict_is_a_mask() -> None:
    assert mask_for(FEATURES, Discrete(2)) is None
    assert mask_for(Dict(a=Dict(action_mask=flags(2))), Discrete(2)) is None
    assert mask_for(Tuple([flags(2)]), Discrete(2)) is None


def test_B104_no_legal_action_names_slot_step_and_choice() -> None:
    mask = mask_for(observed(flags(3)), Discrete(3))
    assert mask is not None
    obs = {"features": np.zeros((3, 2)), "action_mask": np.array([[1, 0, 0], [1, 1, 1], [0, 0, 0]])}
    with pytest.raises(NoLegalActionError, match=r"^slot 7, step 21 of its episode: 'action_mask' leaves no legal act"):
        mask.legal(obs, rows([5, 6, 7], [0, 3, 21]))
    with pytest.raises(NoLegalActionError, match=r"^row 2: "):
        mask.legal(obs, None)
    several = mask_for(observed(flags(5)), MultiDiscrete([2, 3]))
    assert several is not None
    obs = {"features": np.zeros((2, 2)), "action_mask": np.array([[1, 0, 0, 1, 0], [1, 1, 0, 0, 0]])}
    with pytest.raises(NoLegalActionError, match=r"slot 4, step 2 .* no legal action for choice 1 of 2"):
        several.legal(obs, rows([3, 4], [1, 2]))


def test_the_mask_is_not_part_of_the_features() -> None:
    space = observed(flags(3))
    flatten = FlatObs(space)
    assert flatten.size == 2
    obs = {"features": np.array([[0.5, 0.25]]), "action_mask": np.array([[0, 1, 1]])}
    assert flatten(obs).tolist() == [[0.5, 0.25]]
    with pytest.raises(ValueError, match=r"expected.*action_mask"):
        flatten({"features": obs["features"]})
    with pytest.raises(SpaceError, match="nothing to see"):
        FlatObs(Dict(action_mask=flags(3)))


def actor(mask: Any, acted: Any, seed: int = 0) -> ActorCriticActor:
    model = ModelConfig(hidden=(4,))
    weights = Architecture.of(observed(mask), acted, model).init(np.random.default_rng(seed))
    weights["policy.out.bias"] = np.random.default_rng(seed).normal(size=weights["policy.out.bias"].shape) * 3
    return ActorCriticActor(observed(mask), acted, model, weights)


def test_B107_the_greedy_action_is_an_index_among_all_actions() -> None:
    one = actor(flags(5), Discrete(5))
    one.set_weights({"policy.out.bias": np.array([9.0, 1.0, 2.0, 9.0, 3.0], np.float32)})
    obs = {"features": np.zeros((1, 2), np.float32), "action_mask": np.array([[0, 0, 1, 0, 1]])}
    out: Any = one.act(obs, explore=False, rng=np.random.default_rng(0))
    assert out.actions.tolist() == [4]


def test_B106_ten_thousand_actions() -> None:
    one = actor(flags(10_000), Discrete(10_000))
    allowed = np.random.default_rng(0).random((4, 10_000)) < 0.3
    obs = {"features": np.zeros((4, 2), np.float32), "action_mask": allowed.astype(np.int8)}
    out: Any = one.act(obs, rng=np.random.default_rng(0))
    assert allowed[np.arange(4), out.actions].all() and np.isfinite(out.extras["action_logp"]).all()


@st.composite
def masked_spaces(draw: Any) -> Any:
    """An action space with a discrete part, and a seed."""
    acted = draw(action_spaces().filter(lambda space: bool(distribution_for(space, squash=False).choices)))
    return acted, draw(st.integers(0, 2**32 - 1))


@settings(max_examples=60, deadline=None)
@given(masked_spaces())
def test_illegal_options_are_never_chosen(case: Any) -> None:
    acted, seed = case
    distribution = distribution_for(acted, squash=False)
    choices = np.array(distribution.choices)
    starts = np.cumsum(choices) - choices
    rng = np.random.default_rng(seed)
    allowed = rng.random((6, sum(choices))) < 0.4
    allowed[np.arange(6)[:, None], starts + rng.integers(choices, size=(6, len(choices)))] = True
    one = actor(flags(sum(choices)), acted, seed)
    obs = {"features": rng.normal(size=(6, 2)).astype(np.float32), "action_mask": allowed.astype(np.int8)}
    params = distribution.masked(one.parameters(obs), allowed)
    for explore in (True, False):
        out = one.act(obs, explore=explore, rng=rng)
        chosen = np.concatenate(
            [
                (out.actions[leaf] if isinstance(out.actions, dict) else out.actions).reshape(6, -1)
                for leaf, space in leaf_spaces(acted).items()
                if not isinstance(space, spaces.Box)
            ],
            axis=1,
        )
        assert allowed[np.arange(6)[:, None], starts + chosen].all()
        assert (distribution.log_prob(params, out.actions, out.extras) == out.extras["action_logp"]).all()
    assert np.isfinite(distribution.entropy(params)).all()


def test_a_mask_that_allows_everything_changes_nothing() -> None:
    acted = ACTIONS["nested"]
    distribution = distribution_for(acted, squash=False)
    params = np.random.default_rng(0).normal(size=(5, distribution.parameters)).astype(np.float32)
    allowed = np.ones((5, sum(distribution.choices)), np.bool_)
    masked = distribution.masked(params, allowed)
    assert (masked == params).all() and not np.shares_memory(masked, params)


def test_readers_can_be_pickled() -> None:
    mask = pickle.loads(pickle.dumps(mask_for(observed(flags(3)), Discrete(3))))
    assert mask.read({"features": np.zeros((1, 2)), "action_mask": np.array([[0, 1, 0]])}).tolist() == [[0, 1, 0]]
