"""Sequences for recurrent policies: pieces as they were sampled, with their states, one priority each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.replayed import equal, numbers, pieces
from support.screens import SIDE, K, Screens

from rlcore.batch import SampleBatch, concat
from rlcore.errors import BatchError
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.sampling.collect import Fragment
from rlcore.testing import Count, TableValue
from rlcore.testing.kit.trees import copied
from rlcore_replay import SequenceBuffer
from rlcore_replay.sequences import of_pieces


def recurrent(batch: SampleBatch) -> SampleBatch:
    """With states that say which piece they are of."""
    state = batch["obs"][batch.cuts["start"]].astype(np.float64)
    return batch.with_cuts(**{"state_in.0": state, "last_state.0": state + 0.5})


def split(batch: SampleBatch) -> list[SampleBatch]:
    return [batch.take_pieces([i]) for i in range(batch.pieces)]


def check_same(one: SampleBatch, other: SampleBatch) -> None:
    assert numbers(one) == numbers(other)
    for name in ("actions", "rewards", "terminated", "t"):
        np.testing.assert_array_equal(one[name], other[name])
        assert one[name].dtype == other[name].dtype
    for name in ("start", "length", "eps_id", "bootstrap", "last_obs", "state_in.0", "last_state.0"):
        np.testing.assert_array_equal(one.cuts[name], other.cuts[name])


@settings(max_examples=40, deadline=None)
@given(
    capacity=st.integers(1, 9),
    batches=st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=6), min_size=1, max_size=6),
    seed=st.integers(0, 99),
)
def test_pieces_come_out_as_they_went_in(capacity: int, batches: list[list[int]], seed: int) -> None:
    buffer, stored, first = SequenceBuffer(capacity, 5, alpha=0.7), [], 0
    for lengths in batches:
        batch = recurrent(pieces(*lengths, first=first))
        first += sum(lengths) + len(lengths)
        places = buffer.add(batch)
        stored += split(batch)
        check_same(buffer.take(places), concat(split(batch)[-capacity:]))
    assert len(buffer) == min(len(stored), capacity) and buffer.added == len(stored)
    drawn = buffer.sample(20, np.random.default_rng(seed))
    by_first = {numbers(one)[0]: one for one in stored[-capacity:]}
    for piece, place in zip(split(drawn), drawn["batch_indexes"][drawn.cuts["start"]], strict=True):
        check_same(piece, by_first[numbers(piece)[0]])
        check_same(piece, buffer.take(np.array([place])))
        assert len(set(piece["batch_indexes"].tolist())) == len(set(piece["weights"].tolist())) == 1


def test_a_sequence_has_one_priority() -> None:
    errors = np.array([1.0, -3.0, 2.0, 4.0])
    cuts = {"start": np.array([0, 3]), "length": np.array([3, 1])}
    np.testing.assert_allclose(of_pieces(errors, cuts), [0.9 * 3 + 0.1 * 2, 4.0])
    buffer = SequenceBuffer(4, 3, alpha=1.0, epsilon=1e-9)
    places = buffer.add(recurrent(pieces(3, 1)))
    batch = buffer.take(np.array([1, 0, 1]), np.ones(3, np.float32))
    assert batch["batch_indexes"].tolist() == [1, 0, 0, 0, 1]
    buffer.update_priorities(batch["batch_indexes"], [4.0, 1.0, -3.0, 2.0, 4.0])
    assert buffer.priorities is not None
    np.testing.assert_allclose(buffer.priorities[places], [2.9, 4.0])
    buffer.add(recurrent(pieces(2, first=20)).with_rows(priorities=np.array([1.0, 2.0], np.float32)))
    np.testing.assert_allclose(buffer.priorities[2], 0.9 * 2 + 0.1 * 1.5)
    with pytest.raises(ValueError, match="item 1"):
        buffer.update_priorities(np.array([0, 1]), [1.0, np.nan])


def test_a_piece_that_is_too_long_is_refused() -> None:
    with pytest.raises(BatchError, match=r"a piece of 6 rows does not fit into sequences of 5: .*evaluators\.fragment"):
        SequenceBuffer(3, 5).add(pieces(2, 6))


def test_restored_it_goes_on_bit_by_bit() -> None:
    one, other = SequenceBuffer(3, 4, alpha=0.6), SequenceBuffer(3, 4, alpha=0.6)
    for first in range(0, 60, 15):
        one.add(recurrent(pieces(4, 2, first=first)))
    one.update_priorities(np.array([0, 1, 2]), [1.0, 2.0, 3.0])
    other.set_state(copied(one.get_state()))
    for buffer in (one, other):
        buffer.add(recurrent(pieces(1, first=90)))
    a, b = (buffer.sample(9, np.random.default_rng(1)) for buffer in (one, other))
    assert equal(a.rows, b.rows) and equal(a.cuts, b.cuts) and equal(one.get_state(), other.get_state())


def test_states_are_those_that_acting_had() -> None:
    evaluator = PolicyEvaluator(
        env=lambda num_envs: Count(num_envs, 7),
        graph=TableValue,
        config={"recurrent": True},
        num_envs=2,
        collect=Fragment(4),
        rng=1,
    )
    buffer = SequenceBuffer(20, 4)
    for _ in range(5):
        buffer.add(evaluator.sample())  # type: ignore[arg-type]
    stored = buffer.take(np.arange(len(buffer)))
    starts = stored.cuts["start"]
    # Its state counts the steps of the episode, as the observation does from 10.
    np.testing.assert_array_equal(stored.cuts["state_in.0"], stored["obs"][starts] - 10)
    np.testing.assert_array_equal(stored.cuts["last_state.0"], stored.cuts["last_obs"] - 10)


def test_frames_of_sequences_are_stored_once() -> None:
    screens, buffer = Screens(2, 5, longest=40), SequenceBuffer(30, 6)
    for _ in range(40):
        batch = screens.sample(6)
        stored = buffer.take(buffer.add(batch))
        np.testing.assert_array_equal(stored["obs"], batch["obs"])
        np.testing.assert_array_equal(stored.cuts["last_obs"], batch.cuts["last_obs"])
    rows = len(buffer.take(np.arange(30)))
    # One a row, and where pieces begin that do not go on with the one before.
    assert buffer.nbytes < 0.6 * rows * K * SIDE * SIDE
