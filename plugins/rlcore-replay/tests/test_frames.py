"""Stacked frames are stored once, and what comes out is what went in, whatever that was."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.replayed import equal
from support.screens import SIDE, K, Screens

from rlcore.batch import SampleBatch
from rlcore.errors import BatchError
from rlcore.returns import as_transitions, n_step
from rlcore.sampling.held_back import HeldBack
from rlcore_replay import ReplayBuffer
from rlcore_replay.frames import FramePool


def check(buffer: ReplayBuffer, everything: list[SampleBatch]) -> None:
    """What is stored is the last rows of ``everything``, bit by bit."""
    rows = np.concatenate([batch["actions"] for batch in everything])[-buffer.capacity :]
    obs = np.concatenate([batch["obs"] for batch in everything])[-buffer.capacity :]
    last = np.concatenate([batch.cuts["last_obs"] for batch in everything])[-buffer.capacity :]
    stored = buffer.take(np.arange(len(buffer)))
    place = {row: i for i, row in enumerate(stored["actions"].tolist())}
    at = [place[row] for row in rows.tolist()]
    assert len(at) == len(buffer)
    np.testing.assert_array_equal(stored["obs"][at], obs)
    np.testing.assert_array_equal(stored.cuts["last_obs"][at], last)


def frames_of(buffer: ReplayBuffer) -> FramePool:
    (one,) = buffer._store.frames._stacks.values()  # type: ignore[union-attr]
    return one.pool


@settings(max_examples=40, deadline=None)
@given(
    slots=st.integers(1, 4),
    steps=st.integers(1, 9),
    n=st.integers(1, 5),
    capacity=st.integers(1, 60),
    frames=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_what_comes_out_is_what_went_in(
    slots: int, steps: int, n: int, capacity: int, frames: bool, seed: int
) -> None:
    screens, held = Screens(slots, seed, frames=frames), HeldBack()
    buffer, everything = ReplayBuffer(capacity, alpha=0.5), []
    for i in range(8):
        if i == 4:
            screens._frames = not frames
        batch = screens.sample(steps)
        if n > 1:
            raw, complete = held.advance("", batch, n - 1, ())
            batch = as_transitions(n_step(raw, n, 0.9)).take_pieces(complete)
        if len(batch):
            everything.append(batch if n > 1 else as_transitions(batch))
            buffer.add(batch)
            check(buffer, everything)
        if i == 5:
            buffer, before = ReplayBuffer(capacity, alpha=0.5), buffer
            buffer.set_state(before.get_state())
            assert equal(buffer.get_state(), before.get_state())
    if buffer._store.frames.names:
        pool = frames_of(buffer)
        # A frame that nothing refers to is free.
        assert len(pool) == np.count_nonzero(pool._counts[: pool.used])


def test_each_frame_is_stored_once() -> None:
    screens = Screens(2, 1, longest=50)
    buffer = ReplayBuffer(400)
    for _ in range(100):
        buffer.add(screens.sample(5))
    episodes = screens._episode
    assert len(buffer) == 400
    # One a row, four more where an episode opens, and what is remembered of those that go on.
    assert len(frames_of(buffer)) <= 400 + 5 * episodes + 2 * K
    whole = 400 * K * SIDE * SIDE
    assert buffer.nbytes < 0.5 * whole


def test_images_that_are_no_stacks_are_stored_as_they_are() -> None:
    buffer = ReplayBuffer(50)
    buffer.add(Screens(2, 1, frames=False).sample(5))
    assert buffer._store.frames.names == ()


def test_stacks_of_steps_apart_share_frames_as_well() -> None:
    screens, held = Screens(1, 3, longest=40), HeldBack()
    buffer = ReplayBuffer(100)
    for _ in range(110):
        raw, complete = held.advance("", screens.sample(1), 2, ())
        batch = as_transitions(n_step(raw, 3, 0.9)).take_pieces(complete)
        if len(batch):
            buffer.add(batch)
    assert len(frames_of(buffer)) < 100 + 5 * screens._episode + 3 * K


def test_a_batch_that_does_not_fit_leaves_no_frames_behind() -> None:
    screens = Screens(1, 1, longest=30)
    buffer = ReplayBuffer(20)
    buffer.add(screens.sample(10))
    with pytest.raises(BatchError, match="differ in more"):
        buffer.add(screens.sample(5).with_rows(more=np.zeros(5)))
    for _ in range(20):
        buffer.add(screens.sample(4))
    pool = frames_of(buffer)
    assert len(pool) == np.count_nonzero(pool._counts[: pool.used]) <= 20 + 5 * 8


@pytest.mark.parametrize("shape", [(K, SIDE, 2 * SIDE), (2 * K, SIDE, SIDE), (K, SIDE * SIDE)])
def test_stacks_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    screens, buffer = Screens(1, 1), ReplayBuffer(20)
    buffer.add(screens.sample(5))
    batch = screens.sample(5)
    with pytest.raises(BatchError, match="column 'obs' has rows of uint8"):
        buffer.add(batch.with_rows(obs=np.zeros((5, *shape), np.uint8)))
    with pytest.raises(BatchError, match="column 'last_obs' has rows of float32"):
        buffer.add(batch.with_cuts(last_obs=batch.cuts["last_obs"].astype(np.float32)))
    rows = {name: column for name, column in batch.rows.items() if name != "obs"}
    with pytest.raises(BatchError, match="there is no obs"):
        buffer.add(SampleBatch(rows, batch.cuts))
    assert len(buffer) == 5


def test_the_pool_makes_room() -> None:
    pool = FramePool((2,), np.dtype(np.int16), 2)
    ids = pool.add(np.arange(20, dtype=np.int16).reshape(10, 2).view(np.uint8))
    pool.refer(ids[3:])
    pool.settle()
    assert len(pool) == 7 and pool.take(ids[5:7]).tolist() == [[10, 11], [12, 13]]
    again = pool.add(np.zeros((3, 4), np.uint8))
    assert set(again.tolist()) == set(ids[:3].tolist()) and len(pool) == 10
    assert pool.take(ids[4:5]).tolist() == [[8, 9]]
