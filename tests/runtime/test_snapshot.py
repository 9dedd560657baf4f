"""Copies as another process would receive them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlcore.batch import SampleBatch
from rlcore.runtime.snapshot import snapshot


@pytest.mark.parametrize("view", [np.s_[:, ::2], np.s_[::-1], np.s_[:, :1]], ids=str)
def test_views_cross_read_only_too(view: Any) -> None:
    array = np.arange(12).reshape(3, 4)[view]
    copied = snapshot({"a": [array]})["a"][0]
    assert copied.tolist() == array.tolist()
    assert not copied.flags.writeable


def test_batches_cross_whole() -> None:
    batch = SampleBatch({"obs": np.arange(6).reshape(3, 2)}, {"start": np.array([0]), "length": np.array([3])})
    copied = snapshot(batch)
    assert copied["obs"].tolist() == batch["obs"].tolist()
    assert not copied["obs"].flags.writeable
