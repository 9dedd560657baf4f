"""Action masks in the environment of any spaces: what is drawn allows something, what is sent has to obey."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from rlcore.errors import NoLegalActionError
from rlcore.testing import LinearPG
from rlcore.testing.environments import Drawn
from rlcore.testing.environments.masks import choice_sizes, flags, forbidden, legal_sample
from rlcore.testing.kit.env import check_env
from rlcore.testing.kit.policy import check_policy_graph

OBS = Box(-1.0, 1.0, (2,))
HANDS = Dict({"left": Discrete(3), "right": Discrete(2), "force": Box(-1.0, 1.0, (1,))})


@pytest.mark.parametrize(
    ("mask", "actions"),
    [
        (MultiBinary(4), Discrete(4, start=2)),
        (MultiBinary((3, 4)), MultiDiscrete([4, 4, 4])),
        (MultiBinary(14), MultiDiscrete([[2, 3], [4, 5]])),
        (Tuple([MultiBinary(2), MultiBinary(3)]), MultiDiscrete([2, 3])),
        (MultiBinary((3, 2)), MultiBinary(3)),
        (MultiBinary(5), HANDS),
        (Dict({"right": MultiBinary(2)}), HANDS),
        (Box(0, 1, (4,), np.int8), Discrete(4)),
    ],
)
def test_masks_of_all_forms_are_drawn_and_obeyed(mask: Any, actions: Any) -> None:
    report = check_env(Drawn, {"observation_space": Dict({"action_mask": mask, "place": OBS}), "action_space": actions})
    assert set(report.untested) == {"frames_are_images", "its_model_is_where_the_environment_is", "its_model_is_pure"}


def test_a_forbidden_action_is_refused() -> None:
    env = Drawn(Dict({"action_mask": MultiBinary(3)}), Discrete(3), num_envs=2)
    env.reset(1)
    obs: Any = env.poll(None)["default"].obs
    illegal = obs["action_mask"].argmin(axis=1)
    assert not obs["action_mask"][0, illegal[0]]
    with pytest.raises(ValueError, match=r"the mask forbids action \d of slot 0"):
        env.send({"default": (np.arange(2), illegal)})


def test_flags_are_read_by_choice() -> None:
    assert choice_sizes(MultiDiscrete([[2, 3], [4, 5]])) == [2, 3, 4, 5]
    assert choice_sizes(OBS) == []
    spaces = {"left": Discrete(3), "right": Discrete(2, start=5)}
    allowed = flags({"action_mask.right": np.array([0, 1])}, spaces)
    assert allowed["left"] is None
    assert [own.tolist() for own in allowed["right"] or []] == [[False, True]]
    assert forbidden(np.array(5), spaces["right"], allowed["right"]) == 0
    assert forbidden(np.array(6), spaces["right"], allowed["right"]) is None
    with pytest.raises(ValueError, match="the mask has 4 flags, the actions 5 options"):
        flags({"action_mask": np.ones(4)}, spaces)


def test_no_action_is_drawn_where_nothing_is_legal() -> None:
    allowed = [np.array([True, False]), np.array([False, False])]
    with pytest.raises(NoLegalActionError, match=r"^'action_mask' leaves no legal action for choice 1 of 2 in"):
        legal_sample(MultiDiscrete([2, 2]), allowed, np.random.default_rng(1))


def test_a_mask_that_allows_nothing_cannot_be_drawn() -> None:
    nothing = Box(0, 0, (3,), np.int8)
    with pytest.raises(ValueError, match="the mask has 3 flags, the actions 4 options"):
        Drawn(Dict({"action_mask": nothing}), Discrete(4)).reset(0)


def test_numbers_without_an_axis_are_elements_of_their_space() -> None:
    point = Box(-1.0, 1.0, (), np.float32)
    settings = {"observation_space": Dict({"level": point, "n": Discrete(3)}), "action_space": Dict({"go": point})}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(Drawn, settings, polls=30)
        check_policy_graph(LinearPG, spaces=[(settings["observation_space"], settings["action_space"])])
