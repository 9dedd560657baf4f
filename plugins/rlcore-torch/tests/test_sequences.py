"""Pieces of different lengths, packed: nothing padded, nothing swapped, every piece from its own state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.acting import Architecture, ModelConfig
from rlcore.batch import SampleBatch
from rlcore_torch.layered import LayeredModel
from rlcore_torch.model import Heads
from rlcore_torch.samples import PieceSamples
from rlcore_torch.sequences import BATCH_SIZES, pack, packing, state_of

OBS = Box(-1.0, 1.0, (2,), np.float32)
CPU = torch.device("cpu")
lengths_of_pieces = st.lists(st.integers(1, 7), min_size=1, max_size=6)


def pieces_of(lengths: list[int], units: int = 3, parts: int = 4, seed: int = 0) -> SampleBatch:
    """Rows that are all different, and states that are."""
    rng = np.random.default_rng(seed)
    sizes, total = np.array(lengths), sum(lengths)
    rows = {"obs": rng.standard_normal((total, 2)).astype(np.float32), "number": np.arange(total)}
    states = {f"state_in.{i}": rng.standard_normal((len(sizes), units)).astype(np.float32) for i in range(parts)}
    return SampleBatch(rows, {"start": np.cumsum(sizes) - sizes, "length": sizes, **states})


@pytest.mark.parametrize(
    ("lengths", "rows", "pieces", "sizes"),
    [
        ([1], [0], [0], [1]),
        ([3], [0, 1, 2], [0], [1, 1, 1]),
        # The longer piece, rows 2 to 6, stands first.
        ([2, 5], [2, 0, 3, 1, 4, 5, 6], [1, 0], [2, 2, 1, 1, 1]),
        ([3, 3, 1], [0, 3, 6, 1, 4, 2, 5], [0, 1, 2], [3, 2, 2]),
        ([1, 3, 3], [1, 4, 0, 2, 5, 3, 6], [1, 2, 0], [3, 2, 2]),
    ],
)
def test_packing_by_hand(lengths: list[int], rows: list[int], pieces: list[int], sizes: list[int]) -> None:
    packed = packing(pieces_of(lengths), np.arange(len(lengths)))
    assert (packed.rows.tolist(), packed.pieces.tolist(), packed.batch_sizes.tolist()) == (rows, pieces, sizes)
    assert packed.rows.dtype == packed.pieces.dtype == packed.batch_sizes.dtype == np.int64


def test_packing_of_chosen_pieces() -> None:
    packed = packing(pieces_of([2, 1, 3, 4]), np.array([2, 0, 1]))
    assert packed.rows.tolist() == [3, 0, 2, 4, 1, 5]
    assert packed.pieces.tolist() == [2, 0, 1] and packed.batch_sizes.tolist() == [3, 2, 1]


@given(lengths=lengths_of_pieces, data=st.data())
def test_packing_is_the_loop_over_steps_and_pieces(lengths: list[int], data: Any) -> None:
    batch = pieces_of(lengths)
    chosen = data.draw(st.lists(st.sampled_from(range(len(lengths))), min_size=1, unique=True))
    packed = packing(batch, np.array(chosen))
    longest_first = sorted(chosen, key=lambda piece: -lengths[piece])  # which is stable
    assert packed.pieces.tolist() == longest_first
    rows, sizes = [], []
    for step in range(max(lengths[piece] for piece in chosen)):
        present = [piece for piece in longest_first if lengths[piece] > step]
        rows += [sum(lengths[:piece]) + step for piece in present]
        sizes.append(len(present))
    assert packed.rows.tolist() == rows and packed.batch_sizes.tolist() == sizes


def test_packed_columns_and_states() -> None:
    batch = pieces_of([2, 5])
    columns = {"number": torch.arange(7)[:, None]}
    minibatch = pack(columns, packing(batch, np.arange(2)), batch.state_in())
    assert minibatch["number"][:, 0].tolist() == [2, 0, 3, 1, 4, 5, 6]
    for part, column in zip(state_of(minibatch), batch.state_in(), strict=True):
        assert part.tolist() == column[[1, 0]].tolist()
    assert minibatch[BATCH_SIZES].device == CPU


def recurrent(shared: bool) -> tuple[LayeredModel, list[torch.Tensor]]:
    config = ModelConfig(hidden=(4,), lstm=3, shared_value=shared)
    model = LayeredModel(OBS, config, Architecture.of(OBS, Discrete(2), config))
    rng = np.random.default_rng(0)
    return model, [torch.tensor(rng.standard_normal(leaf.view), dtype=torch.float32) for leaf in model.layout]


def forward(model: LayeredModel, leaves: list[torch.Tensor], batch: SampleBatch) -> Heads:
    """Of all pieces at once, in the batch's order."""
    packed = packing(batch, np.arange(batch.pieces))
    columns = {name: torch.tensor(column) for name, column in model.columns(batch.obs).items()}
    heads = model(leaves, pack(columns, packed, batch.state_in()))
    rows, pieces = torch.tensor(packed.rows).argsort(), torch.tensor(packed.pieces).argsort()
    assert heads.values is not None
    return Heads(heads.policy[rows], None, heads.values[rows], tuple(part[pieces] for part in heads.state))


def one_by_one(model: LayeredModel, leaves: list[torch.Tensor], batch: SampleBatch) -> Heads:
    """The same by a loop over pieces and their rows, which knows nothing of packing."""
    policy, values, states = [], [], []
    for piece in range(batch.pieces):
        state = [torch.tensor(part[piece : piece + 1]) for part in batch.state_in()]
        start = int(batch.cuts["start"][piece])
        for row in range(start, start + int(batch.cuts["length"][piece])):
            inputs = {"obs": torch.tensor(batch["obs"][row : row + 1])}
            inputs |= {f"state_in.{i}": part for i, part in enumerate(state)}
            heads = model(leaves, {**inputs, BATCH_SIZES: torch.tensor([1])})
            assert heads.values is not None
            policy.append(heads.policy)
            values.append(heads.values)
            state = list(heads.state)
        states.append(state)
    joined = tuple(torch.cat(parts) for parts in zip(*states, strict=True))
    return Heads(torch.cat(policy), None, torch.cat(values), joined)


@pytest.mark.parametrize("shared", [False, True])
@settings(max_examples=25, deadline=None)
@given(lengths=lengths_of_pieces)
def test_B127_B131_packed_pieces_are_what_they_are_one_by_one(shared: bool, lengths: list[int]) -> None:
    model, leaves = recurrent(shared)
    batch = pieces_of(lengths, parts=2 if shared else 4)
    together, apart = forward(model, leaves, batch), one_by_one(model, leaves, batch)
    torch.testing.assert_close(together.policy, apart.policy, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(together.values, apart.values, rtol=1e-5, atol=1e-6)
    # The state of a piece is the one after its own last row, whatever the others' lengths.
    for one, other in zip(together.state, apart.state, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_B127_the_shorter_of_two_pieces_stops_at_its_own_end() -> None:
    model, leaves = recurrent(True)
    batch = pieces_of([2, 5], parts=2)
    short = forward(model, leaves, batch.take_pieces([0])).state
    for one, other in zip(forward(model, leaves, batch).state, short, strict=True):
        torch.testing.assert_close(one[:1], other)


@pytest.mark.parametrize(
    ("units", "expected"),
    [
        (None, [[0, 1], [2]]),
        ([2, 0], [[0], [2]]),
        ([1], [[1], []]),
        ([2], [[], [2]]),
        ([], [[], []]),
        ([2, 1, 0], [[1, 0], [2]]),
    ],
)
def test_pieces_are_shared_out_whole(units: Any, expected: list[list[int]]) -> None:
    batch = pieces_of([2, 1, 3])
    samples = PieceSamples({"number": batch["number"]}, [CPU, CPU], batch)
    minibatches = samples.minibatches(None if units is None else np.array(units, np.int64))
    rows = [[0, 1], [2], [3, 4, 5]]
    assert [sorted(m["number"][:, 0].tolist()) for m in minibatches] == [
        sorted(row for piece in share for row in rows[piece]) for share in expected
    ]
    for minibatch, share in zip(minibatches, expected, strict=True):
        if not share:
            continue
        order = sorted(share, key=lambda piece: -len(rows[piece]))
        assert (state_of(minibatch)[0].numpy() == batch.cuts["state_in.0"][order]).all()
