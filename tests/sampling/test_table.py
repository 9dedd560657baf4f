"""Columns that are filled step by step: small rows and large ones, before and after they have grown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlcore.errors import BatchError
from rlcore.sampling.table import StepTable


@pytest.mark.parametrize("shape", [(), (3,), (16,), (17,), (8, 8)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.uint8])
def test_rows_come_slot_by_slot(shape: tuple[int, ...], dtype: Any) -> None:
    slots, steps, table = 3, 5, StepTable(3, 2)
    values = np.random.default_rng(0).integers(0, 2, (steps, slots, *shape)).astype(dtype)
    for step in range(steps):
        table.make_room(step)
        table.put("x", step, values[step])
    expected = np.swapaxes(values, 0, 1).reshape(slots * steps, *shape)
    rows = table.rows(steps, None)["x"]
    assert rows.dtype == dtype and rows.flags.c_contiguous
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(table.column("x", steps), expected)
    keep = np.array([1, 4, 9])
    np.testing.assert_array_equal(table.rows(steps, keep)["x"], expected[keep])
    np.testing.assert_array_equal(table.cell("x", 1, 4), values[4, 1])
    table.set("x", 2, slice(1, 3), 1)
    assert (table.rows(3, None)["x"].reshape(slots, 3, *shape)[2, 1:] == 1).all()


def test_what_was_not_put_is_zero() -> None:
    table = StepTable(2, 3)
    table.put("x", 1, np.ones(2, np.float32))
    assert table.rows(3, None)["x"].tolist() == [0, 1, 0, 0, 1, 0]
    with pytest.raises(BatchError, match="column 'x' got shape"):
        table.put("x", 2, np.ones(3, np.float32))
