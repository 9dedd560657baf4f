from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.batch import SampleBatch
from rlcore.errors import BatchError
from rlcore.returns import discounted_returns, ends, gae, successor_values, trajectory, vtrace

ENDINGS = st.sampled_from(["terminated", "truncated", "open"])
PIECES = st.lists(st.tuples(st.integers(1, 9), ENDINGS), min_size=1, max_size=5)


def random_batch(build: Any, pieces: list[tuple[int, str]], seed: int) -> SampleBatch:
    rng = np.random.default_rng(seed)
    lengths, endings = [size for size, _ in pieces], [ending for _, ending in pieces]
    rows = sum(lengths)
    return build(lengths, endings, rng.normal(size=rows), rng.normal(size=rows), rng.normal(size=len(pieces)))


def piece_by_piece(batch: SampleBatch) -> list[tuple[slice, bool, float]]:
    cuts = batch.cuts
    table = zip(cuts["start"], cuts["length"], cuts["bootstrap"], cuts["last_value"], strict=True)
    return [(slice(start, start + size), bool(alive), float(value)) for start, size, alive, value in table]


def gae_row_by_row(batch: SampleBatch, gamma: float, lambda_: float) -> list[float]:
    result: list[float] = []
    for rows, alive, last_value in piece_by_piece(batch):
        rewards, values = batch["rewards"][rows], batch["vf_preds"][rows]
        advantage, following, advantages = 0.0, last_value if alive else 0.0, []
        for reward, value in zip(rewards[::-1].tolist(), values[::-1].tolist(), strict=True):
            advantage = reward + gamma * following - value + gamma * lambda_ * advantage
            following = value
            advantages.append(advantage)
        result += advantages[::-1]
    return result


def vtrace_row_by_row(
    batch: SampleBatch, log_ratios: list[float], gamma: float, lambda_: float, rho_clip: float, trace_clip: float
) -> tuple[list[float], list[float]]:
    """The recursion of Remark 1 in the V-trace paper."""
    targets, advantages = np.zeros(len(batch)), np.zeros(len(batch))
    for rows, alive, last_value in piece_by_piece(batch):
        value_after = target_after = last_value if alive else 0.0
        for i in reversed(range(rows.start, rows.stop)):
            ratio, value = float(np.exp(log_ratios[i])), float(batch["vf_preds"][i])
            reward, rho, trace = float(batch["rewards"][i]), min(rho_clip, ratio), lambda_ * min(trace_clip, ratio)
            advantages[i] = min(1.0, ratio) * (reward + gamma * target_after - value)
            carried = gamma * trace * (target_after - value_after)
            target_after = value + rho * (reward + gamma * value_after - value) + carried
            targets[i], value_after = target_after, value
    return targets.tolist(), advantages.tolist()


def test_B001_a_time_limit_bootstraps(build: Any) -> None:
    batch = gae(build([3], ["truncated"]), 0.9, 0.95)
    np.testing.assert_allclose(batch["advantages"], [2.0957, 1.3985, 0.7000], atol=5e-5)
    one_step = gae(build([3], ["truncated"]), 0.9, 0.0)
    assert one_step["value_targets"][-1] == np.float32(12.7)


def test_B002_a_real_end_does_not_bootstrap(build: Any) -> None:
    batch = gae(build([3], ["terminated"]), 0.9, 0.95)
    np.testing.assert_allclose(batch["advantages"], [-6.4573, -8.6050, -11.0], atol=5e-5)
    assert batch["value_targets"][-1] == np.float32(1.0)


def test_B002_the_value_after_a_real_end_is_not_looked_at(build: Any) -> None:
    batch = gae(build([3], ["terminated"], last_values=[np.nan]), 0.9, 0.95)
    np.testing.assert_allclose(batch["advantages"], [-6.4573, -8.6050, -11.0], atol=5e-5)


def test_B003_truncation_bootstraps_from_the_final_observation_not_the_next_episodes_first(build: Any) -> None:
    batch = gae(build([3, 3], ["truncated", "truncated"]), 0.9, 0.0)
    np.testing.assert_allclose(batch["value_targets"][[2, 5]], [12.7, 12.7], rtol=1e-6)


def test_B013_a_terminated_row_stays_so_where_it_is_also_truncated(build: Any) -> None:
    batch = build([3], ["terminated"])
    batch.rows["truncated"][2] = True
    batch.cuts["bootstrap"][0] = True
    np.testing.assert_allclose(gae(batch, 0.9, 0.95)["advantages"], [-6.4573, -8.6050, -11.0], atol=5e-5)


@pytest.mark.parametrize("poison", [1e6, np.nan])
def test_B113_what_stands_in_another_piece_has_no_influence(build: Any, poison: float) -> None:
    rewards = [1.0, 1.0, poison, poison, poison, poison, poison]
    advantages = gae(build([2, 5], ["open", "open"], rewards), 0.9, 0.95)["advantages"][:2]
    assert advantages.tolist() == gae(build([2], ["open"]), 0.9, 0.95)["advantages"].tolist()


def test_B118_on_policy_vtrace_is_the_n_step_return(build: Any) -> None:
    batch = build([3], ["truncated"])
    result = vtrace(batch, batch["vf_preds"], batch.cuts["last_value"], np.zeros(3), 0.9)
    np.testing.assert_allclose(result.targets, [12.187, 1.9 + 0.81 * 13, 12.7], rtol=1e-6)
    np.testing.assert_allclose(result.advantages, [2.187, 1.43, 0.7], rtol=1e-5)


def test_vtrace_literal_numbers_off_policy(build: Any) -> None:
    batch = build([2], ["truncated"])
    result = vtrace(batch, batch["vf_preds"], batch.cuts["last_value"], np.log([0.5, 4.0]), 0.9)
    # delta = [0.5 * 0.9, 1.0 * 0.8]; corrections = [0.45 + 0.9 * 0.5 * 0.8, 0.8]
    np.testing.assert_allclose(result.targets, [10.81, 11.8], rtol=1e-6)
    np.testing.assert_allclose(result.advantages, [0.5 * (1 + 0.9 * 11.8 - 10), 0.8], rtol=1e-5)


@given(PIECES, st.integers(0, 2**32 - 1), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
@settings(deadline=None)
def test_gae_equals_the_loop(
    build: Any, pieces: list[tuple[int, str]], seed: int, gamma: float, lambda_: float
) -> None:
    batch = random_batch(build, pieces, seed)
    expected = np.array(gae_row_by_row(batch, gamma, lambda_))
    result = gae(batch, gamma, lambda_)
    np.testing.assert_allclose(result["advantages"], expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(result["value_targets"], expected + batch["vf_preds"], rtol=1e-5, atol=1e-5)


@given(PIECES, st.integers(0, 2**32 - 1), st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.5, 3.0))
@settings(deadline=None)
def test_vtrace_equals_the_loop(
    build: Any, pieces: list[tuple[int, str]], seed: int, gamma: float, lambda_: float, clip: float
) -> None:
    batch = random_batch(build, pieces, seed)
    log_ratios = np.random.default_rng(seed).normal(size=len(batch))
    result = vtrace(
        batch,
        batch["vf_preds"],
        batch.cuts["last_value"],
        log_ratios,
        gamma,
        lambda_=lambda_,
        rho_clip=clip,
        trace_clip=1.0,
    )
    targets, advantages = vtrace_row_by_row(batch, log_ratios.tolist(), gamma, lambda_, clip, 1.0)
    np.testing.assert_allclose(result.targets, targets, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(result.advantages, advantages, rtol=1e-5, atol=1e-5)


@given(PIECES, st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_returns_are_gae_without_values(build: Any, pieces: list[tuple[int, str]], seed: int) -> None:
    batch = random_batch(build, pieces, seed)
    result = discounted_returns(batch, 0.9)
    without_values = batch.with_rows(vf_preds=np.zeros(len(batch), np.float32))
    np.testing.assert_allclose(result["value_targets"], gae_row_by_row(without_values, 0.9, 1.0), rtol=1e-5, atol=1e-5)
    assert (result["advantages"] == result["value_targets"]).all()


@pytest.mark.parametrize(("ending", "expected"), [("terminated", [2.71, 1.9, 1.0]), ("open", [12.187, 12.43, 12.7])])
def test_returns_to_go(build: Any, ending: str, expected: list[float]) -> None:
    np.testing.assert_allclose(discounted_returns(build([3], [ending]), 0.9)["value_targets"], expected, rtol=1e-6)


def test_returns_without_last_values_end_with_the_piece(build: Any) -> None:
    batch = build([3], ["open"])
    del batch.cuts["last_value"]
    np.testing.assert_allclose(discounted_returns(batch, 0.9)["value_targets"], [2.71, 1.9, 1.0], rtol=1e-6)


def test_a_framework_can_run_the_recursion_on_its_own_arrays(build: Any) -> None:
    torch = pytest.importorskip("torch")
    batch = build([3, 2], ["truncated", "terminated"])
    where = ends(batch)
    arrays = [
        batch["rewards"],
        batch["vf_preds"],
        successor_values(batch["vf_preds"], batch.cuts["last_value"], where),
        0.9 * where.alive,
        where.continues.astype(np.float64),
    ]

    def scan(a: Any, b: Any) -> Any:
        rows = [a[-1]]
        for i in reversed(range(len(a) - 1)):
            rows.append(a[i] + b[i] * rows[-1])
        return torch.stack(rows[::-1])

    result = trajectory(*(torch.as_tensor(array, dtype=torch.float64) for array in arrays), lambda_=0.95, scan=scan)
    np.testing.assert_allclose(result.corrections.numpy(), gae(batch, 0.9, 0.95)["advantages"], rtol=1e-6)


def test_results_are_float32_and_share_the_other_columns(build: Any) -> None:
    batch = build([3], ["open"])
    result = gae(batch, 0.9, 0.95)
    assert result["advantages"].dtype == result["value_targets"].dtype == np.float32
    assert result["obs"] is batch["obs"] and "advantages" not in batch


def test_missing_values_are_named(build: Any) -> None:
    batch = build([3], ["open"])
    del batch.cuts["last_value"]
    with pytest.raises(BatchError, match="'vf_preds' and the cut column 'last_value'"):
        gae(batch, 0.9, 0.95)


def test_a_piece_over_the_end_of_an_episode_is_refused(build: Any) -> None:
    batch = build([3], ["open"])
    batch.rows["truncated"][1] = True
    with pytest.raises(BatchError, match="ends at row 1, inside a piece"):
        gae(batch, 0.9, 0.95)


def test_an_empty_batch_stays_empty(build: Any) -> None:
    assert len(gae(build([], []), 0.9, 0.95)["advantages"]) == 0


@pytest.mark.parametrize("length", [3, 999, 40_000])
def test_long_batches_have_the_advantages_of_their_pieces(build: Any, length: int) -> None:
    """More rows than are gone through at once, pieces shorter and longer than that."""
    pieces = [(length, "open"), (7, "terminated"), (length + 1, "truncated")] * (50_000 // length + 1)
    batch = random_batch(build, pieces, seed=1)
    whole = gae(batch, 0.99, 0.95)
    for index in (0, 1, 2, len(pieces) - 1):
        alone = gae(batch.take_pieces([index]), 0.99, 0.95)
        start, size = int(batch.cuts["start"][index]), int(batch.cuts["length"][index])
        for name in ("advantages", "value_targets"):
            np.testing.assert_allclose(whole[name][start : start + size], alone[name], atol=1e-5)
