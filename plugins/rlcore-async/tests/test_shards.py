"""How weights are cut into shards, and how long the optimizers' own programs are."""

from __future__ import annotations

import ast
import inspect
from types import ModuleType

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rlcore_async import driver_copies, remarks, shard_layout, shard_states
from rlcore_async.async_gradients import AsyncGradients
from rlcore_async.gradient_products import GradientSlices
from rlcore_async.shard import ParameterShard
from rlcore_async.shard_layout import WeightLayout, cuts, flattened, joined
from rlcore_async.sharded_ps import ShardedPS

SHAPES = st.lists(st.lists(st.integers(0, 7), max_size=3).map(tuple), min_size=1, max_size=6)


@given(size=st.integers(0, 10**8), shards=st.integers(1, 300))
def test_shards_are_of_equal_size_to_one_element(size: int, shards: int) -> None:
    sizes = [cut.stop - cut.start for cut in cuts(size, shards)]
    assert sum(sizes) == size and len(sizes) == shards and max(sizes) - min(sizes) <= 1


def test_they_are_cut_by_bytes_and_not_by_tensor() -> None:
    weights = {"huge": np.zeros((1000, 1000), np.float32), "tiny": np.zeros(8, np.float32)}
    flat = flattened(weights)
    assert {flat[cut].nbytes for cut in cuts(len(flat), 8)} == {4 * (1_000_000 + 8) // 8}


@given(shapes=SHAPES, shards=st.integers(1, 9))
def test_what_is_cut_is_put_together_again(shapes: list[tuple[int, ...]], shards: int) -> None:
    rng = np.random.default_rng(0)
    weights = {f"w{i}": rng.standard_normal(shape).astype(np.float32) for i, shape in enumerate(shapes)}
    flat = flattened(weights)
    again = WeightLayout.of(weights).named(joined(flat[cut] for cut in cuts(len(flat), shards)))
    assert sorted(again) == sorted(weights)
    for name, own in weights.items():
        assert again[name].shape == own.shape and again[name].dtype == own.dtype and (again[name] == own).all()


def lines_of(*parts: type | ModuleType) -> int:
    """Lines of code: without blank ones, comments and docstrings."""
    count = 0
    for one in parts:
        source = inspect.getsource(one)
        texts = enumerate(map(str.strip, source.splitlines()), start=1)
        lines = {number for number, text in texts if text and not text.startswith("#")}
        for node in ast.walk(ast.parse(source)):
            # A constant that stands by itself is a docstring.
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        count += len(lines)
    return count


def test_their_own_programs_are_short() -> None:
    assert lines_of(AsyncGradients) <= 40
    # The optimizer's own logic, shard included: who calls whom, what an update is, what is kept and brought back.
    assert lines_of(ShardedPS, ParameterShard) <= 120


def test_so_is_what_they_stand_on() -> None:
    """How weights lie in flat arrays and are cut, and what of the driver's graphs lies beside them: which is no part of
    an optimizer's logic, and which nobody else uses."""
    modules = [shard_layout, shard_states, driver_copies, remarks]
    assert lines_of(GradientSlices, *modules) <= 190
