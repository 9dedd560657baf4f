"""Packed batches: exact in every bit, whatever is in them, and small where there is something to gain."""

from __future__ import annotations

import pickle
from typing import Any

import lz4.block
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore import packing, same_bytes
from rlcore.batch import SampleBatch
from rlcore.packing import Blocks, Stacks, pack, unpack

DTYPES = ("?", "u1", "i2", "i4", "i8", "f2", "f4", "f8", "U3", "O")


def batch_of(obs: np.ndarray, last_obs: np.ndarray, lengths: list[int], **rows: np.ndarray) -> SampleBatch:
    sizes = np.array(lengths, np.int64)
    return SampleBatch({"obs": obs, **rows}, {"start": np.cumsum(sizes) - sizes, "length": sizes, "last_obs": last_obs})


def games(lengths: list[int], frames: int, shape: tuple[int, ...], seed: int, dtype: Any = np.uint8) -> SampleBatch:
    """Pieces of games whose observations are stacks of frames, each one moving something over a background."""
    rng = np.random.default_rng(seed)
    obs, last_obs = [], []
    for length in lengths:
        pictures = np.zeros((length + frames, *shape), dtype)
        places = rng.integers(0, int(np.prod(shape)), size=(len(pictures), 5))
        values = rng.integers(1, 99, places.shape).astype(dtype)
        np.put_along_axis(pictures.reshape(len(pictures), -1), places, values, 1)
        stacks = np.stack([pictures[i : i + frames] for i in range(length + 1)])
        obs.append(stacks[:-1])
        last_obs.append(stacks[-1])
    return batch_of(np.concatenate(obs), np.stack(last_obs), lengths)


def assert_same(one: SampleBatch, other: SampleBatch) -> None:
    for kind in ("rows", "cuts"):
        table, copy = getattr(one, kind), getattr(other, kind)
        assert list(table) == list(copy)
        for name, column in table.items():
            assert (copy[name].dtype, copy[name].shape) == (column.dtype, column.shape)
            if column.dtype.hasobject:
                assert copy[name].tolist() == column.tolist()
            else:
                assert copy[name].tobytes() == column.tobytes()


def there_and_back(batch: SampleBatch) -> SampleBatch:
    packed = pack(batch)
    assert_same(batch, packed.unpack())
    again = unpack(pickle.loads(pickle.dumps(packed)))
    assert_same(batch, again)
    return again


@st.composite
def columns(draw: st.DrawFn, rows: int) -> np.ndarray:
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = (rows, *draw(st.lists(st.sampled_from([1, 2, 3, 40]), max_size=3)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if dtype.kind in "UO":
        return rng.integers(0, 3, shape).astype(str).astype(dtype)
    # Any bits: NaNs with payloads and negative zeros among them.
    array = rng.integers(0, draw(st.sampled_from([1, 2, 256])), (*shape, dtype.itemsize)).astype(np.uint8)
    column = (array & 1 if dtype.kind == "b" else array).view(dtype).reshape(shape)
    order = draw(st.sampled_from(["C", "F", "strided", "reversed"]))
    if order == "strided":
        return np.repeat(column, 2, axis=0)[::2]
    return column[::-1] if order == "reversed" else np.asarray(column, order=order)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.lists(st.integers(0, 9), max_size=4))
def test_whatever_is_in_a_batch_comes_out_as_it_went_in(data: st.DataObject, lengths: list[int]) -> None:
    rows = sum(lengths)
    table = {name: data.draw(columns(rows)) for name in ("obs", "obs.camera", "rewards")}
    cuts = {name: data.draw(columns(len(lengths))) for name in ("last_obs", "last_obs.camera", "slot")}
    sizes = np.array(lengths, np.int64)
    there_and_back(SampleBatch(table, {"start": np.cumsum(sizes) - sizes, "length": sizes, **cuts}))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=5),
    st.integers(2, 5),
    st.sampled_from([(16, 16), (11, 7, 5), (300,)]),
    st.sampled_from(["u1", "f4", "f8"]),
    st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 2**20)), max_size=4),
    st.integers(0, 100),
)
def test_stacks_that_repeat_and_stacks_that_do_not_come_out_as_they_went_in(
    lengths: list[int], frames: int, shape: tuple[int, ...], dtype: str, spoilt: list[tuple[int, int]], seed: int
) -> None:
    batch = games(lengths, frames, shape, seed, np.dtype(dtype))
    # Single bytes that break the repetition, some of them in the successors.
    for where, place in spoilt:
        column = batch.rows["obs"] if where % 4 else batch.cuts["last_obs"]
        if len(column):
            column.reshape(-1).view(np.uint8)[place % column.nbytes] ^= 1 + where % 255
    there_and_back(batch)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=4),
    st.integers(2, 5),
    st.integers(1, 4),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 2**20)), max_size=2),
    st.integers(0, 100),
)
def test_stacks_come_out_as_they_went_in_over_many_blocks(
    lengths: list[int], frames: int, groups: int, told: bool, spoilt: list[tuple[int, int]], seed: int
) -> None:
    batch = games(lengths, frames, (16, 16), seed)
    for where, place in spoilt:
        column = batch.rows["obs"]
        if len(column):
            column.reshape(-1)[place % column.nbytes] ^= 1 + where % 255
    if not told:
        # Pieces whose beginnings are seen, not told.
        batch = batch_of(batch.rows["obs"], batch.cuts["last_obs"][-1:], [sum(lengths)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "STACK_BLOCK_BYTES", groups * frames * frames * 256)
        there_and_back(batch)


@pytest.mark.parametrize("spoilt", [None, *range(16, 32)])
def test_a_row_that_does_not_follow_is_kept_whole_wherever_it_is(
    spoilt: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = games([64], 4, (16, 16), 0)
    monkeypatch.setattr(packing, "STACK_BLOCK_BYTES", 16 * 4 * 256)
    expected = [0]
    if spoilt is not None:
        # Its oldest frame: the rows after it still follow.
        batch.rows["obs"][spoilt, 0, 3, 3] ^= 1
        expected += [spoilt]
    obs = pack(batch).rows["obs"]
    assert isinstance(obs, Stacks) and len(obs.blocks) == 4
    assert np.flatnonzero(obs.whole).tolist() == expected
    there_and_back(batch)


def test_frames_of_stacks_are_kept_once() -> None:
    batch = games([20, 1, 43], 4, (84, 84), 0)
    packed = pack(batch)
    obs, last_obs = packed.rows["obs"], packed.cuts["last_obs"]
    assert isinstance(obs, Stacks) and isinstance(last_obs, Stacks)
    assert np.flatnonzero(obs.whole).tolist() == [0, 20, 21]
    assert not last_obs.whole.any()
    kept = sum(len(lz4.block.decompress(block)) for block in (*obs.blocks, *last_obs.blocks))
    assert kept == (3 * 4 + 61 + 3) * 84 * 84
    assert 100 * packed.nbytes < sum(column.nbytes for column in (*batch.rows.values(), *batch.cuts.values()))
    assert_same(batch, packed.unpack())


def test_stacks_of_noise_are_kept_once_too() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (70, 20, 20), dtype=np.uint8)
    stacks = np.stack([noise[i : i + 4] for i in range(65)])
    packed = pack(batch_of(stacks[:-1], stacks[-1:], [64]))
    assert packed.nbytes < 1.1 * noise.nbytes
    assert packed.unpack()["obs"].tobytes() == stacks[:-1].tobytes()


def test_columns_that_do_not_shrink_are_left_alone() -> None:
    rng = np.random.default_rng(0)
    noise, flags = rng.normal(size=(5000, 9)), np.zeros(5000, np.bool_)
    batch = batch_of(noise, noise[:1], [5000], terminated=flags)
    packed = pack(batch)
    assert packed.rows["obs"] is noise and packed.cuts["length"] is batch.cuts["length"]
    assert isinstance(packed.rows["terminated"], Blocks) and packed.rows["terminated"].nbytes < 100
    assert packed.unpack()["obs"] is noise


def test_what_is_unpacked_is_read_only_as_whatever_crosses() -> None:
    batch = games([20, 43], 4, (84, 84), 0).with_rows(terminated=np.zeros(63, np.bool_), t=np.zeros(63, np.int64))
    batch = batch.with_rows(long=np.zeros((63, 40_000)))
    packed = pack(batch)
    again = packed.unpack()
    for table, tables in ((again.rows, packed.rows), (again.cuts, packed.cuts)):
        for name, column in table.items():
            assert not (column.flags.writeable and not isinstance(tables[name], np.ndarray)), name
    assert len(packed.rows["long"].blocks) == 20  # type: ignore[union-attr]


def test_without_the_c_library_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = games([20, 1, 43], 4, (84, 84), 0)
    with_it = pack(batch)

    def missing(name: object) -> object:
        raise OSError

    monkeypatch.setattr(same_bytes.ctypes, "PyDLL", missing)
    monkeypatch.setattr(same_bytes, "_MEMCMP", same_bytes._memcmp())
    without = pack(batch)
    assert pickle.dumps(without) == pickle.dumps(with_it)
