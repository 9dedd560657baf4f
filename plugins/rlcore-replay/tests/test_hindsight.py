"""Hindsight: which outcomes become goals, what the transitions are told again as, and when."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.replayed import equal, pieces

from rlcore.batch import SampleBatch
from rlcore.errors import BatchError
from rlcore.returns import n_step
from rlcore_replay import Hindsight, HindsightBuffer, Strategy, relabel
from rlcore_replay.hindsight import choose_goals


def reward(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
    """0 where the goal is reached, else -1."""
    return (achieved == desired).all(axis=1) - 1.0


def reached(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
    return (achieved == desired).all(axis=1)


def goals(batch: SampleBatch) -> SampleBatch:
    """Counters whose number is what they achieve, and who never get where they want to."""
    obs, last = batch.rows.pop("obs"), batch.cuts.pop("last_obs")
    for table, base, number in ((batch.rows, "obs", obs), (batch.cuts, "last_obs", last)):
        table[f"{base}.observation"] = np.concatenate([number, number], axis=1)
        table[f"{base}.achieved_goal"] = number.astype(np.float64)
        table[f"{base}.desired_goal"] = np.full(number.shape, -1.0)
    batch.rows["rewards"][:] = -1.0
    return batch


@settings(max_examples=50, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5), count=st.integers(1, 4), seed=st.integers(0, 99)
)
def test_goals_come_from_the_same_episode_and_not_from_before(lengths: list[int], count: int, seed: int) -> None:
    sizes, rng = np.array(lengths), np.random.default_rng(seed)
    episode = np.repeat(np.arange(len(sizes)), sizes)
    rows, outcome = choose_goals(sizes, Strategy.FUTURE, count, rng)
    assert np.bincount(rows, minlength=len(episode)).tolist() == [count] * len(episode)
    assert (episode[rows] == episode[outcome]).all() and (outcome >= rows).all()
    rows, outcome = choose_goals(sizes, Strategy.FINAL, count, rng)
    assert rows.tolist() == list(range(len(episode)))
    assert outcome.tolist() == (np.cumsum(sizes) - 1)[episode].tolist()


def test_every_later_outcome_may_become_the_goal() -> None:
    rows, outcome = choose_goals(np.array([3]), Strategy.FUTURE, 3000, np.random.default_rng(1))
    share = np.bincount(outcome[rows == 0], minlength=3) / 3000
    np.testing.assert_allclose(share, 1 / 3, atol=0.03)


def test_an_episode_told_again_by_hand() -> None:
    # 5, 6, 7 and in the end 8: what was achieved at last becomes the goal.
    episode = n_step(goals(pieces(3, ends="l", first=5)), 1, 0.9)
    hindsight = Hindsight(reward, Strategy.FINAL, terminated=reached, gamma=0.9)
    before = {name: column.copy() for name, column in episode.rows.items()}
    again = relabel(episode, hindsight, np.random.default_rng(0))
    assert again["obs.desired_goal"][:, 0].tolist() == again.cuts["last_obs.desired_goal"][:, 0].tolist() == [8, 8, 8]
    assert again["obs.achieved_goal"][:, 0].tolist() == [5, 6, 7]
    assert again["rewards"].tolist() == [-1, -1, 0] and again["rewards"].dtype == np.float32
    assert again["terminated"].tolist() == [False, False, True]
    assert again.cuts["bootstrap"].tolist() == [True, True, False]
    assert again["discounts"].tolist() == pytest.approx([0.9, 0.9, 0.0])
    assert again["obs.desired_goal"].dtype == np.float64
    assert all((episode.rows[name] == column).all() for name, column in before.items())
    plain = relabel(episode, Hindsight(reward, Strategy.FINAL), np.random.default_rng(0))
    assert plain["terminated"].tolist() == [False] * 3 and plain["discounts"].tolist() == pytest.approx([0.9] * 3)


def test_episodes_are_told_again_once_they_are_over() -> None:
    buffer = HindsightBuffer(100, Hindsight(reward, goals=2), np.random.default_rng(0), alpha=0.6)
    assert len(buffer.add(goals(pieces(3, first=0)))) == 3
    assert len(buffer.add(goals(pieces(2, first=3, t=3)))) == 2
    # The fourth part of the episode, of six rows by then, ends it; another one begins.
    indexes = buffer.add(goals(pieces(1, 2, first=5, t=5, ends="l")))
    assert len(indexes) == 3 + 2 * 6 and len(buffer) == 5 + 15
    again = buffer.take(indexes[3:])
    assert (again["rewards"] == (again.cuts["last_obs.achieved_goal"] == again["obs.desired_goal"])[:, 0] - 1.0).all()
    assert (again["obs.desired_goal"] > again["obs.achieved_goal"]).all() and again["obs.desired_goal"].max() <= 6
    # That other one goes on with the next batch.
    indexes = buffer.add(goals(pieces(1, first=10, eps_id=1, ends="t")))
    assert len(indexes) == 1 + 2 * 1 and (buffer.take(indexes)["obs.achieved_goal"] == 10).all()


def test_it_goes_on_bit_by_bit() -> None:
    def build() -> HindsightBuffer:
        return HindsightBuffer(40, Hindsight(reward, goals=3), np.random.default_rng(7))

    one, other = build(), build()
    one.add(goals(pieces(4, 2, first=0, ends="l")))
    other.set_state(one.get_state())
    for buffer in (one, other):
        buffer.add(goals(pieces(5, first=20, eps_id=1, t=2, ends="t")))
    assert equal(one.get_state(), other.get_state())


def test_episodes_that_nobody_goes_on_with_are_forgotten() -> None:
    buffer = HindsightBuffer(10, Hindsight(reward), np.random.default_rng(0))
    for i in range(9):
        buffer.add(goals(pieces(4, first=10 * i, eps_id=i)))
        assert buffer._held is not None and len(buffer._held) <= 10
    assert buffer._held is not None and buffer._held.cuts["eps_id"].tolist() == [7, 8]


@pytest.mark.parametrize(
    ("batch", "given", "message"),
    [
        (pieces(2, ends="l"), reward, r"there is no last_obs\.achieved_goal, last_obs\.desired_goal"),
        (n_step(goals(pieces(3, ends="l")), 2, 0.9), reward, "set policy.n_step to 1"),
        (goals(pieces(2, ends="l")), lambda achieved, desired: achieved, r"float32 of shape \(8, 1\)"),
        (goals(pieces(2, ends="l")), lambda achieved, desired: np.full(len(achieved), np.nan), "finite numbers"),
    ],
)
def test_what_cannot_be_told_again_is_refused(batch: SampleBatch, given: object, message: str) -> None:
    with pytest.raises(BatchError, match=message):
        relabel(batch, Hindsight(given), np.random.default_rng(0))  # type: ignore[arg-type]
