"""Statistics of observations merge to the same bits in whatever order and groups, and to what pooled ones are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcore.sampling.filters import RunningStatistics
from rlcore_es import exact_statistics
from rlcore_es.exact_statistics import ExactStatistics


def seen(rows: np.ndarray) -> dict[str, object]:
    statistics = RunningStatistics(rows.shape[1:])
    statistics.update(rows)
    return statistics.get_state()


def test_a_delta_by_hand() -> None:
    found = exact_statistics.merged(
        [exact_statistics.exact({"p": {"": seen(np.array([[1.0], [3.0]]))}}) for _ in range(2)]
    )
    (delta,) = exact_statistics.deltas(found)["p"].values()
    assert (delta["count"], delta["mean"].tolist(), delta["m2"].tolist()) == (4, [2.0], [4.0])


@given(st.lists(st.integers(1, 30), min_size=2, max_size=8), st.floats(-1e6, 1e6), st.integers(0, 2**32))
def test_any_order_and_any_groups_give_the_same_bits(sizes: list[int], shift: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [shift + rng.standard_normal((size, 3)) for size in sizes]
    parts = [ExactStatistics.of(seen(one)) for one in rows]
    assert all(part is not None for part in parts)
    forward = parts[0]
    for part in parts[1:]:
        forward = forward.merged(part)
    halves = [parts[::2], parts[1::2][::-1]]
    merged = [own[0] for own in halves]
    for i, own in enumerate(halves):
        for part in own[1:]:
            merged[i] = part.merged(merged[i])
    other = merged[1].merged(merged[0]).delta()
    for name, value in forward.delta().items():
        assert np.array_equal(value, other[name])
    pooled = seen(np.concatenate(rows))
    assert forward.delta()["count"] == pooled["count"]
    np.testing.assert_allclose(forward.delta()["mean"], pooled["mean"], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(forward.delta()["m2"], pooled["m2"], rtol=1e-9, atol=1e-6)


def test_nothing_seen_is_nothing() -> None:
    assert ExactStatistics.of({}) is None
    assert exact_statistics.exact({"p": {"": {}}}) == {"p": {}}
    assert exact_statistics.deltas({"p": {}}) == {"p": {}}


def test_what_was_added_is_the_difference() -> None:
    rng = np.random.default_rng(0)
    one, two = rng.standard_normal((40, 2)), 5.0 + rng.standard_normal((7, 2))
    before = exact_statistics.exact({"p": {"": seen(one)}})
    after = exact_statistics.exact({"p": {"": seen(np.concatenate([one, two]))}})
    (delta,) = exact_statistics.deltas(exact_statistics.added(before, after))["p"].values()
    assert delta["count"] == 7
    assert delta["mean"] == pytest.approx(two.mean(axis=0), rel=1e-12)
    assert delta["m2"] == pytest.approx(7 * two.var(axis=0), rel=1e-9)
    assert exact_statistics.deltas(exact_statistics.added(after, after)) == {"p": {"": {}}}
