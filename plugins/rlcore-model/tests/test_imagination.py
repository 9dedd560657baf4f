"""What policies meet in a model: transitions worked by hand."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from rlcore.batch import SampleBatch
from rlcore.columns import Columns
from rlcore.model import BatchedModel
from rlcore.policy_graph import ActOutput
from rlcore.testing import check_batch
from rlcore_model.imagination import imagine, mixed, with_columns_of


class Line(BatchedModel):
    """The action ``[n, 1]`` is added to the place ``[n, 1]``, which is the reward; from 3 on the episode is over."""

    def initial(self, n: int, rng: np.random.Generator) -> Columns:
        return np.zeros((n, 1), np.float32)

    def from_obs(self, obs: Columns) -> Columns:
        return obs

    def legal(self, states: Columns) -> None:
        return None

    def chance(self, states: Columns) -> None:
        return None

    def step(self, states: Any, actions: Any, rng: np.random.Generator) -> tuple[Columns, np.ndarray]:
        after = states + actions
        return after, after

    def to_play(self, states: Columns) -> np.ndarray:
        return np.zeros(len(states), np.int64)

    def observe(self, states: Columns) -> Columns:
        return states

    def terminal(self, states: Any) -> np.ndarray:
        return np.asarray(states[:, 0] >= 3.0)


class Counting:
    """Acts by how often it has acted in this episode, which its state tells: 1, 2, 3 ..."""

    def initial_state(self, n: int) -> tuple[np.ndarray, ...]:
        return (np.ones((n, 1), np.float32),)

    def act(self, obs: Any, state: Any = (), *, rows: Any = None, explore: bool = True, rng: Any) -> ActOutput:
        assert explore and len(state[0]) == len(obs)
        return ActOutput(state[0], (state[0] + 1,))


def rollouts(steps: int) -> SampleBatch:
    starts = np.array([[0.0], [2.0], [-9.0]], np.float32)
    return imagine(Line(), Counting(), starts, steps, np.random.default_rng(0))  # type: ignore[arg-type]


def test_rollouts_go_on_where_they_were_up_to_an_end() -> None:
    found = rollouts(3)
    assert found["obs"].ravel().tolist() == [0, 2, -9, 1, -8, -6]
    assert found["actions"].ravel().tolist() == [1, 1, 1, 2, 2, 3]
    assert found["rewards"].tolist() == [1, 3, -8, 3, -6, -3]
    assert found["terminated"].tolist() == [False, True, False, True, False, False]
    assert found.cuts["bootstrap"].tolist() == [True, False, True, False, True, True]
    assert found.last_obs.ravel().tolist() == [1, 3, -8, 3, -6, -3]
    assert (found.cuts["length"] == 1).all() and not found["truncated"].any()
    assert found["t"].tolist() == [0, 0, 0, 1, 1, 2]
    assert found.cuts["eps_id"].tolist() == [0, 1, 2, 0, 2, 2]


def test_samplers_hand_over_the_same_columns() -> None:
    space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    check_batch(rollouts(3), space, space)


def test_they_end_where_all_have_ended() -> None:
    found = imagine(Line(), Counting(), np.array([[2.0]], np.float32), 5, np.random.default_rng(0))  # type: ignore
    assert len(found) == 1


def numbered(numbers: range) -> SampleBatch:
    n = len(numbers)
    return SampleBatch(
        {"obs": np.array(numbers, np.float32)[:, None], "t": np.zeros(n, np.int32)},
        {"start": np.arange(n), "length": np.ones(n, np.int64), "slot": np.zeros(n, np.int64)},
    )


def test_every_minibatch_has_its_share_of_both() -> None:
    found = mixed([numbered(range(2)), numbered(range(10, 16))], size=4, minibatches=2)
    assert found["obs"].ravel().tolist() == [0, 10, 11, 12, 1, 13, 14, 15]


def test_columns_that_only_one_has_are_left_out() -> None:
    own = numbered(range(3)).with_rows(more=np.zeros(3))
    found = with_columns_of(own, rollouts(1))
    assert set(found.rows) == {"obs", "t"} and set(found.cuts) == {"start", "length", "slot"}
    assert found["obs"].dtype == np.float32
    assert len(found) == 3


@pytest.mark.parametrize("size", [1, 5])
def test_a_lone_source_stays_as_it_is(size: int) -> None:
    one = numbered(range(size))
    assert mixed([one], size, 1) is one
