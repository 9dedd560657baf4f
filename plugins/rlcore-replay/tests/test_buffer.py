"""The replay buffer: what it stores, how it draws, and what it makes of priorities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.replayed import equal, numbers, pieces
from support.screens import Screens

from rlcore.batch import SampleBatch, concat
from rlcore.errors import BatchError
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.returns import n_step
from rlcore.sampling.collect import Fragment
from rlcore.testing import AliasingCount, Count, TableValue
from rlcore.testing.kit.trees import copied
from rlcore_replay import ReplayBuffer


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def filled(count: int, capacity: int | None = None, **settings: float) -> ReplayBuffer:
    buffer = ReplayBuffer(capacity or count, **settings)
    buffer.add(pieces(count))
    return buffer


# -- what is stored


def test_pieces_become_transitions() -> None:
    buffer = ReplayBuffer(10)
    indexes = buffer.add(pieces(2, 3, ends="t-", first=10))
    assert indexes.tolist() == [0, 1, 2, 3, 4] and len(buffer) == 5
    batch = buffer.take(indexes)
    assert batch["obs"][:, 0].tolist() == [10, 11, 13, 14, 15]
    assert batch.cuts["last_obs"][:, 0].tolist() == [11, 12, 14, 15, 16]
    assert batch["terminated"].tolist() == [False, True, False, False, False]
    assert batch.cuts["bootstrap"].tolist() == [True, False, True, True, True]
    assert batch.cuts["length"].tolist() == [1] * 5 and batch.cuts["eps_id"].tolist() == [0, 0, 1, 1, 1]
    assert batch["rewards"].dtype == np.float32 and batch["t"].dtype == np.int32


@settings(max_examples=50, deadline=None)
@given(
    capacity=st.integers(1, 40),
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=8),
    seed=st.integers(0, 9),
)
def test_the_last_rows_are_kept_whatever_comes(capacity: int, lengths: list[int], seed: int) -> None:
    buffer, first = ReplayBuffer(capacity, alpha=0.5), 0
    everything: list[int] = []
    for length in lengths:
        batch = pieces(length, first=first)
        indexes = buffer.add(batch)
        everything += numbers(batch)
        assert numbers(buffer.take(indexes)) == numbers(batch)[-capacity:]
        first += length + 1
    kept = everything[-capacity:]
    assert len(buffer) == len(kept) and buffer.added == len(everything)
    every = buffer.take(np.arange(len(buffer)))
    assert sorted(numbers(every)) == kept
    np.testing.assert_array_equal(every.cuts["last_obs"], every["obs"] + 1)
    drawn = buffer.sample(200, generator(seed))
    assert set(numbers(drawn)) <= set(kept)


def test_B021_B022_what_is_stored_is_not_the_environment_s_own_memory() -> None:
    def sample(env: object) -> SampleBatch:
        evaluator = PolicyEvaluator(env=env, graph=TableValue, num_envs=1, collect=Fragment(3), rng=1)  # type: ignore[arg-type]
        return evaluator.sample()  # type: ignore[return-value]

    buffer = ReplayBuffer(3)
    batch = sample(lambda num_envs: AliasingCount(num_envs, 100))
    buffer.add(batch)
    stored = buffer.take(np.arange(3))
    obs = {name: column for name, column in stored.rows.items() if name.split(".")[0] == "obs"}
    for name, column in obs.items():
        after = stored.cuts["last_" + name]
        assert (after - column == 1).all() and len(np.unique(column)) == 3
    batch.rows["actions"][:] = 7
    drawn = buffer.sample(3, generator())
    assert not (drawn["actions"] == 7).any()
    drawn.rows["rewards"][:] = 9.0
    assert not (buffer.take(np.arange(3))["rewards"] == 9.0).any()


def test_B025_n_step_sums_stay_within_their_episode() -> None:
    expected = {"t": 0.0, "l": 0.81}
    for end, discount in expected.items():
        batch = n_step(concat([pieces(2, ends=end), pieces(4, first=10, eps_id=5)]), 3, 0.9)
        buffer = ReplayBuffer(10)
        buffer.add(batch)
        first = buffer.take(np.array([0]))
        assert first["rewards"].tolist() == pytest.approx([1.9]) and first["steps"].tolist() == [2]
        assert first["discounts"].tolist() == pytest.approx([discount])
        assert first.cuts["last_obs"][:, 0].tolist() == [2]


def test_nested_observations_lie_in_columns_of_their_own() -> None:
    batch = pieces(4)
    obs, last = batch.rows.pop("obs"), batch.cuts.pop("last_obs")
    wide = np.arange(4 * 40, dtype=np.float64).reshape(4, 40)
    batch.rows.update({"obs.place": obs, "obs.arm.wide": wide})
    batch.cuts.update({"last_obs.place": last, "last_obs.arm.wide": wide[-1:] + 1})
    buffer = ReplayBuffer(4)
    buffer.add(batch)
    stored = buffer.take(np.arange(4))
    assert set(stored.obs) == {"place", "arm.wide"}
    np.testing.assert_array_equal(stored["obs.arm.wide"], wide)
    assert stored["obs.arm.wide"].dtype == np.float64
    np.testing.assert_array_equal(stored.cuts["last_obs.arm.wide"], np.concatenate([wide[1:], wide[-1:] + 1]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda batch: batch.rows.pop("t"), "they differ in t"),
        (lambda batch: batch.rows.update(more=np.zeros(3)), "they differ in more"),
        (lambda batch: batch.rows.update(rewards=np.zeros(3)), "'rewards' has rows of float64"),
        (lambda batch: batch.rows.update(obs=np.zeros((3, 2), np.float32)), r"'obs' has rows of float32 \(2,\)"),
    ],
)
def test_batches_of_other_columns_are_refused_whole(change: object, message: str) -> None:
    buffer = filled(3, capacity=10, alpha=1.0)
    before = buffer.get_state()
    batch = pieces(3, first=50)
    change(batch)  # type: ignore[operator]
    if "obs" in message:
        batch.cuts["last_obs"] = np.zeros((1, 2), np.float32)
    with pytest.raises(BatchError, match=message):
        buffer.add(batch)
    assert equal(buffer.get_state(), before) and len(buffer) == 3


def test_recurrent_rows_cannot_stand_alone() -> None:
    batch = pieces(3).with_cuts(**{"state_in.0": np.zeros((1, 2)), "last_state.0": np.zeros((1, 2))})
    with pytest.raises(BatchError, match="recurrent"):
        ReplayBuffer(3).add(batch)


def test_nothing_can_be_drawn_from_nothing() -> None:
    for buffer in (ReplayBuffer(3), ReplayBuffer(3, alpha=1.0)):
        with pytest.raises(BatchError, match="nothing in the replay buffer"):
            buffer.sample(1, generator())


@settings(max_examples=30, deadline=None)
@given(stored=st.integers(1, 300), parts=st.lists(st.integers(1, 40), min_size=1, max_size=6), seed=st.integers(0, 99))
def test_several_minibatches_drawn_together_are_those_drawn_one_by_one(
    stored: int, parts: list[int], seed: int
) -> None:
    buffer = filled(stored, capacity=300)
    one, other = generator(seed), generator(seed)
    together = buffer.sample(sum(parts), one)
    apart = concat([buffer.sample(rows, other) for rows in parts])
    assert equal(dict(together.rows), dict(apart.rows)) and equal(dict(together.cuts), dict(apart.cuts))
    assert one.bit_generator.state == other.bit_generator.state


def test_B036_two_buffers_share_nothing() -> None:
    one, other = ReplayBuffer(3, alpha=0.5), ReplayBuffer(5, alpha=0.7)
    one.add(pieces(3))
    assert (one.capacity, len(one), other.capacity, len(other)) == (3, 3, 5, 0)


# -- how it is drawn


def test_B030_the_last_item_is_drawn_as_often_as_the_others() -> None:
    for settings_ in ({}, {"alpha": 1.0}):
        buffer = filled(2, **settings_)
        drawn = np.concatenate([buffer.sample(10, generator(i))["obs"][:, 0] for i in range(1000)])
        assert abs(np.mean(drawn) - 0.5) < 0.02


def test_B031_weights_are_by_the_batch() -> None:
    buffer = filled(3, alpha=1.0, epsilon=1e-12)
    buffer.update_priorities(np.arange(3), [1.0, 3.0, 0.001])
    assert buffer._priorities is not None
    np.testing.assert_allclose(buffer._priorities.weights(np.array([0, 1]), beta=1.0), [1.0, 1 / 3], rtol=1e-6)
    drawn = buffer.sample(64, generator(), beta=1.0)
    stored = buffer.priorities
    assert stored is not None
    own = stored[drawn["batch_indexes"]]
    # (N p / sum of p) ** -beta over the greatest in the batch.
    weights = (3 * own / stored.sum()) ** -1.0
    np.testing.assert_allclose(drawn["weights"], weights / weights.max(), rtol=1e-6)
    assert drawn["weights"].dtype == np.float32 and drawn["batch_indexes"].dtype == np.int64
    np.testing.assert_array_equal(drawn["obs"][:, 0], drawn["batch_indexes"])


def test_beta_of_zero_corrects_nothing() -> None:
    buffer = filled(2, alpha=1.0)
    buffer.update_priorities(np.arange(2), [1.0, 9.0])
    assert (buffer.sample(20, generator(), beta=0.0)["weights"] == 1.0).all()


# -- priorities


def test_B027_alpha_applies_once_to_new_items() -> None:
    buffer = filled(1, capacity=2, alpha=0.7)
    buffer.update_priorities(np.array([0]), [100.0])
    buffer.add(pieces(1, first=5))
    assert buffer.priorities is not None
    np.testing.assert_allclose(buffer.priorities, [25.119, 25.119], atol=5e-4)


def test_B028_no_error_is_no_priority_of_zero() -> None:
    buffer = filled(2, alpha=1.0, epsilon=0.1)
    buffer.update_priorities(np.arange(2), [0.0, 3.0])
    drawn = buffer.sample(2000, generator(), beta=1.0)
    assert np.isfinite(drawn["weights"]).all() and (drawn["weights"] > 0).all()
    assert set(drawn["batch_indexes"].tolist()) == {0, 1}


def test_B032_a_priority_that_is_not_finite_is_refused_by_its_item() -> None:
    buffer = filled(4, alpha=0.6)
    before = buffer.get_state()
    for wrong in (np.nan, np.inf):
        with pytest.raises(ValueError, match="item 2"):
            buffer.update_priorities(np.array([1, 2, 3]), [0.5, wrong, 0.1])
    assert equal(buffer.get_state(), before)
    assert len(buffer.sample(8, generator())) == 8


def test_B033_new_items_get_the_highest_priority_so_far() -> None:
    buffer = filled(1, capacity=3, alpha=1.0, epsilon=1e-9)
    buffer.update_priorities(np.array([0]), [50.0])
    buffer.add(pieces(1, first=7))
    assert buffer.priorities is not None
    np.testing.assert_allclose(buffer.priorities[:2], [50.0, 50.0])
    buffer.update_priorities(np.array([0, 1]), [0.5, 2.0])
    buffer.add(pieces(1, first=8))
    assert buffer.priorities[2] == pytest.approx(50.0)


def test_batches_may_bring_priorities_of_their_own() -> None:
    buffer = ReplayBuffer(4, alpha=0.5, epsilon=1e-9)
    batch = pieces(6).with_rows(priorities=np.arange(6, dtype=np.float32))
    indexes = buffer.add(batch)
    assert buffer.priorities is not None
    np.testing.assert_allclose(buffer.priorities[indexes] ** 2, [2, 3, 4, 5], rtol=1e-4)
    assert "priorities" not in buffer.take(indexes)
    buffer.add(pieces(1, first=20))
    assert buffer.priorities.max() ** 2 == pytest.approx(5)


def test_of_an_item_drawn_twice_the_last_error_counts() -> None:
    buffer = filled(2, alpha=1.0, epsilon=1e-9)
    buffer.update_priorities(np.array([0, 1, 0]), [1.0, 2.0, 3.0])
    assert buffer.priorities is not None
    np.testing.assert_allclose(buffer.priorities, [3.0, 2.0])


def test_items_that_are_drawn_alike_have_no_priorities() -> None:
    with pytest.raises(BatchError, match="draws uniformly"):
        filled(2).update_priorities(np.array([0]), [1.0])
    with pytest.raises(ValueError, match="alpha"):
        ReplayBuffer(3, alpha=-1.0)
    with pytest.raises(ValueError, match="epsilon"):
        ReplayBuffer(3, alpha=1.0, epsilon=0.0)


# -- states


@pytest.mark.parametrize("rows", [0, 3, 10, 27])
@pytest.mark.parametrize("alpha", [None, 0.6])
def test_B079_B080_restored_it_goes_on_bit_by_bit(rows: int, alpha: float | None) -> None:
    def go_on(buffer: ReplayBuffer, rng: np.random.Generator) -> list[SampleBatch]:
        drawn = []
        for i in range(4):
            buffer.add(pieces(3, first=100 + 10 * i))
            drawn.append(buffer.sample(16, rng))
            if alpha is not None:
                buffer.update_priorities(drawn[-1]["batch_indexes"], rng.random(16))
        return drawn

    one = ReplayBuffer(10, alpha=alpha)
    for first in range(0, rows, 3):
        one.add(pieces(min(3, rows - first), first=first))
    if alpha is not None and rows:
        one.update_priorities(np.arange(len(one)), generator(5).random(len(one)))
    other = ReplayBuffer(10, alpha=alpha)
    other.set_state(one.get_state())
    assert len(other) == len(one) == min(rows, 10) and other.added == one.added
    for a, b in zip(go_on(one, generator(1)), go_on(other, generator(1)), strict=True):
        assert equal(a.rows, b.rows) and equal(a.cuts, b.cuts)
    assert equal(one.get_state(), other.get_state())


def test_a_state_of_another_capacity_is_refused() -> None:
    with pytest.raises(BatchError, match="10 rows"):
        ReplayBuffer(5).set_state(filled(10).get_state())


def test_a_count_of_an_environment_is_what_comes_out() -> None:
    evaluator = PolicyEvaluator(
        env=lambda num_envs: Count(num_envs, 5), graph=TableValue, num_envs=3, collect=Fragment(4), rng=1
    )
    buffer = ReplayBuffer(100)
    for _ in range(6):
        buffer.add(evaluator.sample())  # type: ignore[arg-type]
    stored = buffer.take(np.arange(len(buffer)))
    np.testing.assert_array_equal(stored.cuts["last_obs"] - stored["obs"], np.ones_like(stored["obs"]))
    assert (stored.cuts["bootstrap"] == ~stored["terminated"]).all()


@settings(max_examples=40, deadline=None)
@given(
    capacity=st.integers(1, 25),
    before=st.lists(st.integers(1, 12), max_size=5),
    after=st.lists(st.integers(1, 30), max_size=6),
    screens=st.booleans(),
    alpha=st.sampled_from([None, 0.6]),
)
def test_what_was_marked_is_there_whatever_comes(
    capacity: int, before: list[int], after: list[int], screens: bool, alpha: float | None
) -> None:
    source, rng = Screens(2, capacity, longest=6), generator()

    def fill(buffer: ReplayBuffer, sizes: list[int]) -> None:
        for size in sizes:
            buffer.add(source.sample(size) if screens else pieces(size, first=buffer.added))
            if alpha is not None:
                buffer.update_priorities(rng.integers(0, len(buffer), 5), rng.random(5))

    def content(state: dict[str, Any]) -> Any:
        other = ReplayBuffer(capacity, alpha=alpha)
        other.set_state(copied(state))
        rows = other.take(np.arange(len(other))) if len(other) else None
        return (rows.rows, rows.cuts) if rows is not None else None, other.priorities, other._own_state()

    buffer = ReplayBuffer(capacity, alpha=alpha)
    for _ in range(2):
        fill(buffer, before)
        expected = content(buffer.get_state())
        buffer.mark()
        assert equal(content(buffer.get_marked()), expected)
        fill(buffer, after)
        assert equal(content(buffer.get_marked()), expected)


@pytest.mark.parametrize("later", [[], [1], [2, 1], [4], [5], [3, 3], [7]])
def test_items_that_gave_way_to_others_are_known(later: list[int]) -> None:
    buffer = ReplayBuffer(5)
    numbers = iter(range(100))

    def add(rows: int) -> None:
        buffer.add(numbered([next(numbers) for _ in range(rows)]))

    add(3)
    add(3)
    places, added = np.arange(5), buffer.added
    before = buffer.take(places)["obs"][:, 0].tolist()
    for rows in later:
        add(rows)
    after = buffer.take(places)["obs"][:, 0].tolist()
    same = [one == other for one, other in zip(before, after, strict=True)]
    assert buffer.still_there(places, added).tolist() == same


def numbered(values: list[int]) -> SampleBatch:
    """Transitions whose observations are these numbers."""
    column = np.asarray(values, np.float32)[:, None]
    ones = np.ones(len(values), np.bool_)
    rows = {"obs": column, "rewards": column[:, 0], "terminated": ~ones, "truncated": ~ones, "actions": column[:, 0]}
    cuts = {
        "start": np.arange(len(values)),
        "length": np.ones(len(values), np.int64),
        "last_obs": column,
        "bootstrap": ones,
    }
    return SampleBatch(rows, cuts)
