"""The fakes must be right before anything can be tested with them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from rlcore.env import DEFAULT_GROUP, BatchedEnv, StepBatch
from rlcore.testing.environments import (
    AliasingCount,
    AliasingCountEnv,
    ArrayRewardEnv,
    Count,
    CountEnv,
    DictCountEnv,
    ExtraKeyEnv,
    InfoEnv,
    MissingKeyEnv,
    NaNCount,
    NaNEnv,
    NaNRewardEnv,
    RaisingCount,
    RaisingEnv,
    RaisingResetEnv,
    ReversedKeysEnv,
    Scattered,
    ScatteredCount,
    ShiftedActionsEnv,
    TwoAgentEnv,
    WrongShapeCount,
    WrongShapeEnv,
)
from rlcore.testing.environments.steps import step_to_tree


def answer(polled: dict[str, StepBatch], right: bool = True) -> dict[str, Any]:
    """Actions for what was polled: those that the contexts of TwoAgentEnv call for, or zeros."""
    actions = {}
    for group, step in polled.items():
        rows = np.flatnonzero(step.needs_action)
        obs = np.asarray(step.obs)[rows]
        shift = np.isin(step.agent_id[rows], ["right"]).astype(np.int64)
        chosen = (obs.argmax(1) + shift) % obs.shape[1] if right and obs.shape[1] > 1 else np.zeros(len(rows), np.int64)
        actions[group] = (step.slot[rows], chosen)
    return actions


def play(env: BatchedEnv, polls: int) -> list[dict[str, Any]]:
    """What ``polls`` polls hand over, as trees."""
    seen = []
    for _ in range(polls):
        polled = env.poll(None)
        seen.append({group: step_to_tree(step) for group, step in polled.items()})
        env.send(answer(polled))
    return seen


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(np.array_equal(one, other)) and np.asarray(one).dtype == np.asarray(other).dtype


def column(seen: list[dict[str, Any]], name: str, group: str = DEFAULT_GROUP) -> list[Any]:
    return [step[group][name].tolist() for step in seen]


def test_count_with_same_step_reset():
    env = Count(1)
    env.reset(0)
    seen = play(env, 5)
    assert column(seen, "obs") == [[[10.0]], [[11.0]], [[12.0]], [[10.0]], [[11.0]]]
    assert column(seen, "final_obs") == [[], [], [], [[13.0]], []]
    assert column(seen, "terminated") == [[False], [False], [False], [True], [False]]
    assert column(seen, "first") == [[True], [False], [False], [True], [False]]
    assert column(seen, "reward") == [[0.0], [1.0], [1.0], [1.0], [1.0]]
    assert column(seen, "env_step") == [[0], [1], [2], [0], [1]]
    assert column(seen, "needs_action") == [[True]] * 5


def test_count_with_next_step_reset():
    env = Count(2, length=[2, 3], truncate=True, next_step=True)
    env.reset(0)
    seen = play(env, 5)
    assert column(seen, "truncated") == [[False, False], [False, False], [True, False], [False, True], [False, False]]
    assert column(seen, "needs_action") == [[True, True], [True, True], [False, True], [True, False], [True, True]]
    assert column(seen, "first") == [[True, True], [False, False], [False, False], [True, False], [False, True]]
    assert column(seen, "final_obs") == [[], [], [[12.0]], [[13.0]], []]
    assert column(seen, "reward")[3] == [0.0, 1.0]


def test_B014_slots_of_different_lengths_have_their_own_returns():
    env = Count(2, length=[2, 5])
    env.reset(0)
    totals, returns = np.zeros(2), [[], []]
    for step in play(env, 31):
        totals += step[DEFAULT_GROUP]["reward"]
        for slot in np.flatnonzero(step[DEFAULT_GROUP]["terminated"]):
            returns[slot].append(totals[slot])
            totals[slot] = 0
    assert set(returns[0]) == {2.0} and set(returns[1]) == {5.0}


def test_a_lone_slot_that_resets_in_the_next_step_goes_on_without_actions():
    env = Count(1, length=1, next_step=True)
    env.reset(0)
    env.send(answer(env.poll(None)))
    assert not env.poll(None)[DEFAULT_GROUP].needs_action[0]
    assert env.poll(None)[DEFAULT_GROUP].first[0]


def test_B021_the_aliasing_count_reuses_its_arrays():
    env = AliasingCount(1)
    env.reset(0)
    polled = env.poll(None)
    kept = polled[DEFAULT_GROUP].obs
    env.send(answer(polled))
    assert env.poll(None)[DEFAULT_GROUP].obs is kept
    assert np.asarray(kept).tolist() == [[11.0]]


def test_B040_polling_twice_is_a_timeout():
    env = Count(4)
    env.reset(0)
    env.poll(None)
    with pytest.raises(TimeoutError, match="4 slots wait for an action"):
        env.poll(0.01)


def test_B041_too_few_actions_are_refused():
    env = Count(4)
    env.reset(0)
    env.poll(None)
    with pytest.raises(ValueError, match="4 rows wait for an action, 3 slots"):
        env.send({DEFAULT_GROUP: (np.arange(3), np.zeros(3, np.int64))})
    with pytest.raises(ValueError, match="4 slots, but 3 actions"):
        env.send({DEFAULT_GROUP: (np.arange(4), np.zeros(3, np.int64))})
    with pytest.raises(ValueError, match="are not all in Discrete"):
        env.send({DEFAULT_GROUP: (np.arange(4), np.full(4, 2))})


def builds() -> list[Any]:
    return [
        lambda: Count(3, length=[1, 2, 3]),
        lambda: Count(2, length=[2, 3], next_step=True),
        lambda: TwoAgentEnv(3, lengths=(4, 3), every=(1, 2), start=(0, 1)),
        lambda: TwoAgentEnv(2, separate_groups=True, lengths=(2, 5), every=(1, 4)),
        lambda: ScatteredCount(4, length=[1, 2, 3, 4], order_seed=5),
        lambda: Scattered(lambda slot: TwoAgentEnv(separate_groups=True, every=(1, 2), first_slot=slot), 3),
    ]


@pytest.mark.parametrize("build", builds())
def test_a_state_between_send_and_poll_goes_on_exactly(build):
    env = build()
    env.reset(11)
    play(env, 6)
    state = env.get_state()
    other = build()
    other.reset(None)
    assert other.set_state(state) == []
    assert all(map(same, play(other, 9), play(env, 9)))


@pytest.mark.parametrize("build", builds())
def test_a_state_between_poll_and_send_hands_over_the_waiting_observations_again(build):
    env = build()
    env.reset(11)
    play(env, 5)
    polled = env.poll(None)
    state = env.get_state()
    env.send(answer(polled))
    other = build()
    other.reset(None)
    assert other.set_state(state) == []
    again = other.poll(None)
    for group, step in again.items():
        kept = np.flatnonzero(polled[group].needs_action) if not env.lockstep else slice(None)
        for name in ("slot", "agent_id", "obs", "first", "needs_action", "env_step"):
            assert np.array_equal(getattr(step, name), getattr(polled[group], name)[kept])
        assert not (step.terminated | step.truncated | step.episode_over).any() and not step.reward.any()
        assert len(step.final_obs) == 0
    other.send(answer(again))
    assert all(map(same, play(other, 9), play(env, 9)))


def test_two_agents_may_be_answered_group_by_group():
    env = TwoAgentEnv(2, separate_groups=True)
    env.reset(0)
    actions = answer(env.poll(None))
    env.send({"right": actions["right"]})
    with pytest.raises(TimeoutError, match="2 agents wait for an action"):
        env.poll(None)
    state = env.get_state()
    env.send({"left": actions["left"]})
    expected = play(env, 5)
    env.set_state(state)
    again = env.poll(None)
    assert set(again) == {"left"}
    env.send(answer(again))
    assert all(map(same, play(env, 5), expected))


def test_two_agents_earn_by_their_own_tasks():
    env = TwoAgentEnv(5)
    env.reset(3)
    rewards = np.concatenate([step[DEFAULT_GROUP]["reward"] for step in play(env, 9)[1:]])
    assert rewards.tolist() == [1.0] * 80
    env.reset(3)
    env.send(answer(env.poll(None), right=False))
    assert env.poll(None)[DEFAULT_GROUP].reward.mean() < 1.0


def test_two_agents_have_the_ids_and_the_groups_that_were_asked_for():
    env = TwoAgentEnv(2, agent_ids=(4, 7), separate_groups=True)
    assert {group: (obs.shape, int(act.n)) for group, (obs, act) in env.groups.items()} == {
        "4": ((2,), 2),
        "7": ((3,), 3),
    }
    env.reset(0)
    polled = env.poll(None)
    assert polled["4"].agent_id.tolist() == [4, 4] and polled["7"].agent_id.tolist() == [7, 7]


def test_B132_an_agent_that_ends_early_has_a_terminal_row_and_no_action_after_it():
    env = TwoAgentEnv(1, lengths=(2, 4))
    env.reset(0)
    seen = play(env, 5)
    assert column(seen, "agent_id") == [["left", "right"]] * 3 + [["right"], ["left", "right"]]
    assert column(seen, "terminated") == [[False, False], [False, False], [True, False], [False], [False, True]]
    assert column(seen, "needs_action") == [[True, True], [True, True], [False, True], [True], [True, True]]
    assert column(seen, "first")[4] == [True, True] and column(seen, "episode_over")[4] == [True, True]
    assert column(seen, "reward")[4] == [0.0, 1.0]


def test_B134_rewards_of_a_silent_agent_are_added_to_its_next_row():
    env = TwoAgentEnv(1, lengths=(5, 5), every=(1, 3))
    env.reset(0)
    seen = play(env, 6)
    right = [step[DEFAULT_GROUP]["agent_id"].tolist().index("right") for step in (seen[0], seen[3], seen[5])]
    assert column(seen, "agent_id")[1] == ["left"]
    assert [seen[i][DEFAULT_GROUP]["reward"][row] for i, row in zip((0, 3, 5), right, strict=True)] == [0.0, 2.0, 1.5]


def test_an_agent_that_was_never_asked_has_no_rows():
    env = TwoAgentEnv(1, lengths=(3, 2), start=(0, 2))
    env.reset(0)
    assert {agent for step in play(env, 8) for agent in step[DEFAULT_GROUP]["agent_id"]} == {"left"}


def test_B065_B067_seeds_repeat_and_slots_differ():
    def contexts(seed: int | None) -> np.ndarray:
        env = TwoAgentEnv(32)
        env.reset(seed)
        return np.stack([step[DEFAULT_GROUP]["obs"] for step in play(env, 10)], 1)

    first, again, other = contexts(123), contexts(123), contexts(124)
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    slots = first.reshape(32, -1)
    assert len(np.unique(slots, axis=0)) == 32


def test_scattered_slots_see_what_they_see_in_lockstep():
    whole = TwoAgentEnv(3, lengths=(4, 3), every=(1, 2), start=(0, 1))
    whole.reset(7)
    expected = by_slot(play(whole, 30), 3)
    for order_seed in (0, 1):
        env = Scattered(
            lambda slot: TwoAgentEnv(1, lengths=(4, 3), every=(1, 2), start=(0, 1), first_slot=slot), 3, order_seed
        )
        env.reset(7)
        for slot, rows in by_slot(play(env, 40), 3).items():
            count = min(len(rows), len(expected[slot]))
            assert count > 20 and rows[:count] == expected[slot][:count]


def by_slot(seen: list[dict[str, Any]], slots: int) -> dict[int, list[tuple[Any, ...]]]:
    rows: dict[int, list[tuple[Any, ...]]] = {slot: [] for slot in range(slots)}
    for step in seen:
        table = step[DEFAULT_GROUP]
        for i, slot in enumerate(table["slot"]):
            values = [table[name][i].tolist() for name in ("agent_id", "reward", "terminated", "obs", "first")]
            rows[int(slot)].append((*values[:3], tuple(values[3]), values[4]))
    return rows


def test_scattered_polls_differ_and_wait_for_nobody():
    env = ScatteredCount(6, order_seed=1)
    env.reset(0)
    sizes = [len(step[DEFAULT_GROUP]["slot"]) for step in play(env, 60)]
    assert min(sizes) >= 1 and len(set(sizes)) > 3
    while True:
        try:
            env.poll(0.0)
        except TimeoutError:
            break
    with pytest.raises(ValueError, match="slot 6 does not wait"):
        env.send({DEFAULT_GROUP: (np.asarray([6]), np.asarray([0]))})


def step_to(env: Any, steps: int) -> Any:
    out: Any = env.reset()
    for _ in range(steps):
        out = env.step(np.int64(0))
    return out


def test_gymnasium_count():
    env = CountEnv(truncate=True)
    assert env.reset()[0].tolist() == [10.0]
    assert [env.step(np.int64(0))[0].tolist() for _ in range(2)] == [[11.0], [12.0]]
    obs, reward, terminated, truncated, _ = env.step(np.int64(1))
    assert (obs.tolist(), reward, terminated, truncated) == ([13.0], 1.0, False, True)
    assert AliasingCountEnv().reset()[0].dtype == np.float32
    aliasing = AliasingCountEnv()
    assert aliasing.reset()[0] is aliasing.step(np.int64(0))[0]
    assert {key: value.tolist() for key, value in step_to(DictCountEnv(), 2)[0].items()} == {
        "a": [12.0],
        "b": [-2.0, -2.0],
    }


def test_faults_strike_where_they_were_put():
    with pytest.raises(ValueError, match="boom"):
        step_to(RaisingEnv(5), 5)
    step_to(RaisingEnv(5), 4)
    attempts = [0]
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no start"):
            RaisingResetEnv(attempts).reset()
    assert attempts == [2]
    assert np.isnan(step_to(NaNEnv(7), 7)[0]).all() and not np.isnan(step_to(NaNEnv(7), 6)[0]).any()
    assert np.isnan(step_to(NaNRewardEnv(3), 3)[1])
    assert step_to(WrongShapeEnv(7), 7)[0].shape == (2,)
    assert set(step_to(MissingKeyEnv(7), 7)[0]) == {"a"}
    assert set(step_to(ExtraKeyEnv(7), 7)[0]) == {"a", "b", "c"}
    assert list(step_to(ReversedKeysEnv(), 1)[0]) == ["b", "a"]
    assert step_to(ArrayRewardEnv(), 1)[1].shape == (1,)
    assert step_to(InfoEnv(), 1)[4]["msg"] == "hi" and step_to(InfoEnv(), 2)[4] == {}
    shifted = ShiftedActionsEnv()
    shifted.reset()
    shifted.step(np.int64(2))
    with pytest.raises(ValueError, match="is not in"):
        shifted.step(np.int64(0))
    assert shifted.received == [2, 0]


def test_faults_of_batched_environments():
    raising, nan, wrong = RaisingCount(2, 5), NaNCount(2, 7, 1), WrongShapeCount(2, 7)
    for env in (raising, nan, wrong):
        env.reset(0)
    with pytest.raises(ValueError, match="boom"):
        play(raising, 5)
    assert np.isnan(play(nan, 8)[7][DEFAULT_GROUP]["obs"]).tolist() == [[False], [True]]
    assert play(wrong, 8)[7][DEFAULT_GROUP]["obs"].shape == (2, 2)


def test_importing_the_kit_loads_no_framework_and_no_pytest():
    code = (
        "import sys, rlcore.testing, rlcore.testing.environments\n"
        "print([name for name in ('torch', 'tensorflow', 'ray', 'pytest', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
