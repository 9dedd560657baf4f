from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.batch import SampleBatch
from rlcore.errors import BatchError
from rlcore.returns import as_transitions, n_step, next_obs

ENDINGS = st.sampled_from(["terminated", "truncated", "open"])
PIECES = st.lists(st.tuples(st.integers(1, 7), ENDINGS), min_size=1, max_size=5)


@pytest.mark.parametrize(("ending", "discount"), [("terminated", 0.0), ("truncated", 0.81)])
def test_B025_n_step_sums_stop_at_the_end_of_the_episode(build: Any, ending: str, discount: float) -> None:
    batch = n_step(build([2, 4], [ending, "open"]), 3, 0.9)
    np.testing.assert_allclose(batch["rewards"], [1.9, 1.0, 2.71, 2.71, 1.9, 1.0], rtol=1e-6)
    assert batch["steps"].tolist() == [2, 1, 3, 3, 2, 1]
    np.testing.assert_allclose(batch["discounts"][0], discount, rtol=1e-6)
    np.testing.assert_allclose(batch["discounts"][2:], [0.729, 0.729, 0.81, 0.9], rtol=1e-6)
    assert batch["rewards"].dtype == batch["discounts"].dtype == np.float32
    assert batch["steps"].dtype == np.int32


@pytest.mark.parametrize(
    ("n", "discounts"), [(1, [0.9, 0.9, 0.0]), (2, [0.81, 0.0, 0.0]), (3, [0.0, 0.0, 0.0]), (50, [0.0, 0.0, 0.0])]
)
def test_discounts_are_0_only_where_the_sum_reaches_the_termination(build: Any, n: int, discounts: list[float]) -> None:
    np.testing.assert_allclose(n_step(build([3], ["terminated"]), n, 0.9)["discounts"], discounts, rtol=1e-6)


@pytest.mark.parametrize("ending", ["terminated", "truncated", "open"])
def test_B003_B019_the_last_successor_is_the_true_final_observation(build: Any, ending: str) -> None:
    obs = next_obs(build([3, 3], [ending, ending]))
    assert obs[:, 0].tolist() == [11.0, 12.0, 13.0, 11.0, 12.0, 13.0]
    assert obs.dtype == np.float32


def test_the_successor_of_an_n_step_sum_lies_steps_ahead(build: Any) -> None:
    obs = next_obs(n_step(build([4, 2], ["open", "terminated"]), 3, 0.9))
    assert obs[:, 0].tolist() == [13.0, 14.0, 14.0, 14.0, 12.0, 12.0]


def test_nested_observations_go_leaf_by_leaf(build: Any) -> None:
    batch = build([2, 1], ["open", "open"])
    obs, last_obs = batch.rows.pop("obs"), batch.cuts.pop("last_obs")
    batch.rows |= {"obs.camera": (obs * 2).astype(np.uint8), "obs.arm.joints": obs}
    batch.cuts |= {"last_obs.camera": (last_obs * 2).astype(np.uint8), "last_obs.arm.joints": last_obs}
    obs = next_obs(batch)
    assert isinstance(obs, dict)
    assert obs["camera"].tolist() == [[22], [24], [22]] and obs["camera"].dtype == np.uint8
    assert obs["arm.joints"].tolist() == [[11.0], [12.0], [11.0]]
    transitions = as_transitions(batch)
    assert transitions.cuts["last_obs.camera"].tolist() == [[22], [24], [22]]


def test_obs_and_last_obs_with_other_leaves_are_refused(build: Any) -> None:
    batch = build([2], ["open"])
    batch.cuts["last_obs.camera"] = batch.cuts.pop("last_obs")
    with pytest.raises(BatchError, match="last_obs"):
        next_obs(batch)


def brute_force(batch: SampleBatch, n: int, gamma: float) -> list[tuple[float, int, float, float]]:
    """By row: the sum, its steps, its discount, and the successor's observation."""
    result = []
    for piece in range(batch.pieces):
        start, size = int(batch.cuts["start"][piece]), int(batch.cuts["length"][piece])
        for i in range(size):
            steps = min(n, size - i)
            total = sum(gamma**k * float(batch["rewards"][start + i + k]) for k in range(steps))
            at_end = i + steps == size
            dead = at_end and not batch.cuts["bootstrap"][piece]
            successor = batch.cuts["last_obs"][piece] if at_end else batch["obs"][start + i + steps]
            result.append((total, steps, 0.0 if dead else gamma**steps, float(successor[0])))
    return result


@given(PIECES, st.integers(1, 9), st.floats(0.1, 1.0), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_n_step_and_next_obs_equal_the_loop(
    build: Any, pieces: list[tuple[int, str]], n: int, gamma: float, seed: int
) -> None:
    lengths, endings = zip(*pieces, strict=True)
    batch = build(lengths, endings, np.random.default_rng(seed).normal(size=sum(lengths)))
    totals, steps, discounts, successors = zip(*brute_force(batch, n, gamma), strict=True)
    summed = n_step(batch, n, gamma)
    np.testing.assert_allclose(summed["rewards"], totals, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(summed["discounts"], discounts, rtol=1e-6)
    assert summed["steps"].tolist() == list(steps)
    transitions = as_transitions(summed)
    for obs in (next_obs(summed), transitions.cuts["last_obs"], next_obs(transitions)):
        assert obs[:, 0].tolist() == list(successors)
    assert (transitions.cuts["bootstrap"] == (np.array(discounts) > 0)).all()


def test_transitions_are_pieces_of_one_row(build: Any) -> None:
    transitions = as_transitions(build([2, 2], ["open", "terminated"]))
    assert transitions.cuts["length"].tolist() == [1, 1, 1, 1]
    assert transitions.cuts["slot"].tolist() == [0, 0, 1, 1]
    assert transitions.cuts["bootstrap"].tolist() == [True, True, True, False]
    assert transitions.cuts["last_value"].tolist() == [11.0, 12.0, 11.0, 12.0]
    picked = transitions.take_pieces([3, 0])
    assert next_obs(picked)[:, 0].tolist() == [12.0, 11.0]


def test_a_recurrent_batch_is_not_torn_apart(build: Any) -> None:
    batch = build([2], ["open"]).with_cuts(**{"state_in.0": np.zeros((1, 8), np.float32)})
    with pytest.raises(BatchError, match=r"recurrent policy .*state_in\.0"):
        as_transitions(batch)


def test_summing_twice_is_refused(build: Any) -> None:
    with pytest.raises(BatchError, match="sums already"):
        n_step(n_step(build([3], ["open"]), 2, 0.9), 2, 0.9)


def test_n_must_be_positive(build: Any) -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        n_step(build([3], ["open"]), 0, 0.9)


def test_an_empty_batch_stays_empty(build: Any) -> None:
    assert len(next_obs(build([], []))) == 0
    assert len(as_transitions(n_step(build([], []), 3, 0.9))) == 0
