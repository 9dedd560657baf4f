from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from rlcore.batch import SampleBatch

Build = Callable[..., SampleBatch]


def build_batch(
    lengths: Sequence[int],
    endings: Sequence[str],
    rewards: Sequence[float] | None = None,
    values: Sequence[float] | None = None,
    last_values: Sequence[float] | None = None,
) -> SampleBatch:
    """Pieces that end "terminated", "truncated" or "open"; observations count 10, 11, ... within a piece, V(s) = s."""
    sizes = np.array(lengths, np.int64)
    rows = int(sizes.sum())
    starts = np.cumsum(sizes) - sizes
    obs = np.concatenate([10.0 + np.arange(n) for n in lengths] or [np.zeros(0)]).astype(np.float32)[:, None]
    last_obs = (10.0 + sizes).astype(np.float32)[:, None]
    flags = {kind: np.zeros(rows, bool) for kind in ("terminated", "truncated")}
    for start, size, ending in zip(starts, sizes, endings, strict=True):
        if ending != "open":
            flags[ending][start + size - 1] = True
    return SampleBatch(
        {
            "obs": obs,
            "rewards": np.ones(rows, np.float32) if rewards is None else np.array(rewards, np.float32),
            "vf_preds": obs[:, 0] if values is None else np.array(values, np.float32),
            **flags,
        },
        {
            "start": starts,
            "length": sizes,
            "slot": np.arange(len(sizes)),
            "bootstrap": np.array([ending != "terminated" for ending in endings], bool),
            "last_obs": last_obs,
            "last_value": last_obs[:, 0] if last_values is None else np.array(last_values, np.float32),
        },
    )


@pytest.fixture(scope="session")
def build() -> Build:
    return build_batch
