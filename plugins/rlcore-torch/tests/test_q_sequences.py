"""Recurrent Q-learning against a computation step by step, without packing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlcore.batch import SampleBatch
from rlcore.learning.successors import extended
from rlcore.returns import n_step
from rlcore_torch import DQN

Build = Callable[..., Any]
OBS = Box(-1.0, 1.0, (2,), np.float32)
LENGTHS = (3, 5, 1)


def sequences(seed: int = 0, weights: bool = False) -> SampleBatch:
    """Three pieces: in the midst of an episode that goes on, at its beginning, and one row that terminates."""
    rng, rows = np.random.default_rng(seed), sum(LENGTHS)
    starts = np.cumsum(LENGTHS) - LENGTHS
    t = np.concatenate([np.arange(3) + 7, np.arange(5), [9]]).astype(np.int32)
    terminated = np.arange(rows) == rows - 1
    columns: dict[str, Any] = {
        "obs": rng.standard_normal((rows, 2)).astype(np.float32),
        "actions": rng.integers(0, 3, rows),
        "rewards": rng.standard_normal(rows).astype(np.float32),
        "terminated": terminated,
        "truncated": np.zeros(rows, np.bool_),
        "t": t,
    }
    if weights:
        columns["weights"] = np.repeat([1.0, 0.5, 0.25], LENGTHS).astype(np.float32)
    state = rng.standard_normal((2, 3, 4)).astype(np.float32)
    state[:, 1] = 0.0
    return SampleBatch(
        columns,
        {
            "start": starts,
            "length": np.array(LENGTHS),
            "bootstrap": np.array([True, True, False]),
            "last_obs": rng.standard_normal((3, 2)).astype(np.float32),
            "state_in.0": state[0],
            "state_in.1": state[1],
        },
    )


def recurrent(build: Build, **settings: Any) -> Any:
    model = {"hidden": [5], "lstm": 4}
    own = build(DQN, Discrete(3), observation_space=OBS, model=model, gamma=0.5, huber_delta=None, **settings)
    rng = np.random.default_rng(5)
    own.set_weights({name: rng.standard_normal(a.shape).astype(np.float32) for name, a in own.get_weights().items()})
    return own


def step_by_step(own: Any, batch: SampleBatch, piece: int, network: str) -> Any:
    """The values of a piece's observations and of the one after it, ``[length + 1, actions]``."""
    actor = own.actor()
    prefix = "" if network == "q" else "target_"
    actor.set_weights({name: own.get_weights()[prefix + name] for name in own.acting})
    start, length = int(batch.cuts["start"][piece]), int(batch.cuts["length"][piece])
    observed = [*batch["obs"][start : start + length], batch.cuts["last_obs"][piece]]
    state = tuple(part[piece : piece + 1] for part in batch.state_in())
    found = []
    for obs in observed:
        found.append(actor.q_values(obs[None], state)[0])
        state = actor.act(obs[None], state, rng=np.random.default_rng(0)).state
    return np.array(found)


def expected_errors(own: Any, batch: SampleBatch, n: int, double: bool) -> Any:
    summed = n_step(batch, n, 0.5)
    errors = []
    for piece, length in enumerate(LENGTHS):
        online, target = (step_by_step(own, batch, piece, network) for network in ("q", "target_q"))
        for i in range(length):
            row = int(batch.cuts["start"][piece]) + i
            after = i + int(summed["steps"][row])
            best = (online if double else target)[after].argmax()
            goal = summed["rewards"][row] + summed["discounts"][row] * target[after][best]
            errors.append(online[i][batch["actions"][row]] - goal)
    return np.array(errors)


def test_successors_stand_behind_their_pieces() -> None:
    batch = sequences()
    found = extended(batch)
    assert isinstance(found, np.ndarray) and len(found) == 12
    np.testing.assert_array_equal(found[[0, 1, 2, 4, 8, 10]], batch["obs"][[0, 1, 2, 3, 7, 8]])
    np.testing.assert_array_equal(found[[3, 9, 11]], batch.cuts["last_obs"])


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("double", [True, False])
def test_errors_are_those_of_going_step_by_step(build: Build, n: int, double: bool) -> None:
    own, batch = recurrent(build, n_step=n, double=double), sequences()
    expected = expected_errors(own, batch, n, double)
    found = own.gradients(batch)
    np.testing.assert_allclose(found.td_error, expected, rtol=1e-4, atol=1e-5)
    assert found.count == 9 and found.stats["q_loss"] == pytest.approx((expected**2).mean() / 2, rel=1e-4)
    chosen = own.gradients(batch, np.array([2, 0]))
    np.testing.assert_allclose(chosen.td_error, expected[[8, 0, 1, 2]], rtol=1e-4, atol=1e-5)


def test_weights_count(build: Build) -> None:
    own, batch = recurrent(build), sequences(weights=True)
    errors = expected_errors(own, batch, 1, True)
    found = own.gradients(batch)
    assert found.stats["q_loss"] == pytest.approx((batch["weights"] * errors**2).mean() / 2, rel=1e-4)


def test_rows_that_bring_the_state_up_to_date_are_not_learnt_from(build: Build) -> None:
    own, batch = recurrent(build, burn_in=2), sequences()
    expected = expected_errors(own, batch, 1, True)
    found = own.gradients(batch)
    # Not the first two of the first piece; the second opens an episode, the third has no more than one row.
    assert found.count == 7
    learnt = [2, 3, 4, 5, 6, 7, 8]
    np.testing.assert_allclose(found.td_error[learnt], expected[learnt], rtol=1e-4, atol=1e-5)
    assert found.td_error[:2].tolist() == [0.0, 0.0]
    assert found.stats["q_loss"] == pytest.approx((expected[learnt] ** 2).mean() / 2, rel=1e-4)
    assert own.learn(batch).rows == 7


def test_masks_of_successors(build: Build) -> None:
    space = gymnasium.spaces.Dict(place=OBS, action_mask=gymnasium.spaces.MultiBinary(3))
    plain = sequences()
    rows = {name: column for name, column in plain.rows.items() if name != "obs"}
    cuts = {name: column for name, column in plain.cuts.items() if name != "last_obs"}
    only = np.eye(3, dtype=np.int8)
    rows |= {"obs.place": plain["obs"], "obs.action_mask": only[np.arange(9) % 3]}
    cuts |= {"last_obs.place": plain.cuts["last_obs"], "last_obs.action_mask": only}
    own = build(DQN, Discrete(3), observation_space=space, model={"hidden": [5], "lstm": 4}, gamma=0.5)
    like = recurrent(build)
    own.set_weights(like.get_weights())
    batch = SampleBatch(rows, cuts)
    target = step_by_step(like, plain, 0, "target_q")
    online = step_by_step(like, plain, 0, "q")
    goals = plain["rewards"][:3] + 0.5 * np.array([target[1][1], target[2][2], target[3][0]])
    taken = online[np.arange(3), plain["actions"][:3]]
    np.testing.assert_allclose(own.gradients(batch).td_error[:3], taken - goals, rtol=1e-4, atol=1e-5)


def test_two_devices_learn_as_one(build: Build) -> None:
    model, batch = {"hidden": [5], "lstm": 4}, sequences()
    one, two = (
        build(DQN, Discrete(3), observation_space=OBS, model=model, devices=devices)
        for devices in (("cpu",), ("cpu", "cpu"))
    )
    for units in (None, np.array([2, 0])):
        np.testing.assert_allclose(one.learn(batch, units).td_error, two.learn(batch, units).td_error, atol=1e-5)
    for name, array in one.get_weights().items():
        np.testing.assert_allclose(array, two.get_weights()[name], rtol=1e-4, atol=1e-6, err_msg=name)
