"""Every action space through the general sampler, which takes environments in whatever order they are ready."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from support.spaces import ACTIONS, OBSERVATIONS, Mirror

from rlcore import Episodes, PolicyEvaluator
from rlcore.acting import ACTION_MASK
from rlcore.errors import NoLegalActionError
from rlcore.testing import LinearPG, Scattered
from rlcore.testing.checks import check_batch

InProcessEnv: Any = pytest.importorskip("rlcore_gym").InProcessEnv


class Blocked(Mirror):
    """Shows a mask whose only legal action is 1, and from step 3 on none."""

    def __init__(self) -> None:
        super().__init__(Dict(action_mask=Box(0, 1, (3,), np.int8), x=Box(-1, 1, (2,))), Discrete(3))

    def reset(self, **settings: Any) -> Any:
        obs, info = super().reset(**settings)
        return {**obs, ACTION_MASK: np.array([0, 1, 0], np.int8)}, info

    def step(self, action: Any) -> Any:
        assert action == 1
        obs, *rest = super().step(action)
        return {**obs, ACTION_MASK: np.array([0, self.t < 3, 0], np.int8)}, *rest


@pytest.mark.parametrize("name", ACTIONS)
def test_actions_are_legal_and_recorded(name: str) -> None:
    acted, observed = ACTIONS[name], OBSERVATIONS["nested"]

    def build(num_envs: int) -> Scattered:
        return Scattered(lambda slot: InProcessEnv([Mirror(observed, acted)], "Mirror"), num_envs)

    source = PolicyEvaluator(env=build, graph=LinearPG, num_envs=3, collect=Episodes(4), rng=0)
    batch: Any = source.sample()
    check_batch(batch, observed, acted)
    assert len(batch) == 20
    policy: Any = source.policies["default"]
    assert not policy.learn(batch).skipped
    source.close()


def test_B104_a_mask_that_allows_nothing_names_environment_slot_and_step() -> None:
    def build(num_envs: int) -> Scattered:
        return Scattered(lambda slot: InProcessEnv([Blocked()], "Blocked"), num_envs)

    source = PolicyEvaluator(env=build, graph=LinearPG, num_envs=2, collect=Episodes(4), rng=0)
    with pytest.raises(NoLegalActionError, match=r"^environment 'scattered Blocked', slot [01], step 3 of its episode"):
        source.sample()
    source.close()
