"""Keys of Dict spaces stand in the order in which the environment has them, sorted or not."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

import rlcore
from rlcore.columns import leaf_spaces, map_leaf_spaces
from rlcore.sampling.filters import MeanStd, NoFilter
from rlcore.testing import LinearPG

UNSORTED = Dict([("z", Dict([("q", Discrete(2)), ("b", Discrete(3))])), ("a", Box(-1.0, 1.0, (1,)))])


class FirstThenSecond(gymnasium.Env[Any, Any]):
    """Of two choices the first may only be 0 and the second only be 1; their masks have names in another order."""

    action_space = MultiDiscrete([2, 2])
    observation_space = Dict(
        [("place", Box(-1.0, 1.0, (1,))), ("action_mask", Dict([("z", MultiBinary(2)), ("a", MultiBinary(2))]))]
    )

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        assert action.tolist() == [0, 1]
        self.t += 1
        return self.observe(), 1.0, self.t == 4, False, {}

    def observe(self) -> dict[str, Any]:
        mask = {"z": np.array([1, 0], np.int8), "a": np.array([0, 1], np.int8)}
        return {"place": np.zeros(1, np.float32), "action_mask": mask}


def test_mapping_the_leaves_of_a_space_keeps_their_order() -> None:
    mapped = map_leaf_spaces(lambda _, leaf: leaf, UNSORTED)
    assert list(leaf_spaces(mapped)) == list(leaf_spaces(UNSORTED)) == ["z.q", "z.b", "a"]


@pytest.mark.parametrize("observation_filter", [NoFilter, MeanStd])
def test_parts_of_a_mask_stand_in_the_order_of_the_space(observation_filter: Any) -> None:
    evaluator = rlcore.PolicyEvaluator(
        env=FirstThenSecond, graph=LinearPG, collect=rlcore.Episodes(1), observation_filter=observation_filter, rng=1
    )
    assert evaluator.sample()["actions"].tolist() == [[0, 1]] * 4
    evaluator.close()
