"""Going on exactly: episodes played again from how they began, snapshots, and what cannot be restored."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore import tree
from rlcore.columns import Columns, map_columns
from rlcore.env import DEFAULT_GROUP, BatchedEnv, StepBatch
from rlcore.envs import build_env
from rlcore.errors import CheckpointError
from rlcore.testing.environments import CountEnv
from rlcore_gym import GymProvider, InProcessEnv, VectorEnvAdapter, replay
from rlcore_gym.replay import ActionLog

SLOTS = 3


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    """What a checkpoint makes of a state."""
    document, arrays = tree.flatten(state)
    return tree.unflatten(json.loads(json.dumps(document)), {name: array.copy() for name, array in arrays.items()})


def saved(env: BatchedEnv) -> dict[str, Any]:
    state = env.get_state()
    assert state is not None
    return through_a_file(state)


def run(env: BatchedEnv, steps: int, rng: np.random.Generator) -> list[StepBatch]:
    """Random actions from the row that waits on; what each poll hands over. The last one is not answered."""
    step = env.poll(None)[DEFAULT_GROUP]
    seen = [_copied(step)]
    for _ in range(steps):
        _answer(env, step, rng)
        step = env.poll(None)[DEFAULT_GROUP]
        seen.append(_copied(step))
    return seen


def _answer(env: BatchedEnv, step: StepBatch, rng: np.random.Generator) -> None:
    rows = np.flatnonzero(step.needs_action)
    space = env.groups[DEFAULT_GROUP][1]
    space._np_random = np.random.default_rng(rng.integers(2**31))
    actions = np.array([space.sample() for _ in step.slot])[rows]
    env.send({DEFAULT_GROUP: (step.slot[rows], actions)})


def _copied(step: StepBatch) -> StepBatch:
    columns = {name: map_columns(np.array, getattr(step, name)) for name in StepBatch.__slots__}  # type: ignore[attr-defined]
    return StepBatch(**columns)


def goes_on_exactly(build: Callable[[], BatchedEnv], steps: int, same_step: Any) -> BatchedEnv:
    """Asserts that a run with a break in the middle equals one without; the restored environment."""
    env = build()
    env.reset(5)
    last = run(env, steps, np.random.default_rng(1))[-1]
    state = saved(env)
    # Taking a state changes nothing.
    _answer(env, last, np.random.default_rng(2))
    unbroken = run(env, steps, np.random.default_rng(3))

    other = build()
    assert other.set_state(state) == []
    again = other.poll(None)[DEFAULT_GROUP]
    for name in ("obs", "first", "needs_action", "env_step"):
        assert np.array_equal(_array(getattr(again, name)), _array(getattr(last, name))), name
    assert not again.reward.any()
    assert not (again.terminated | again.truncated | again.episode_over).any()
    _answer(other, again, np.random.default_rng(2))
    assert all(map(same_step, run(other, steps, np.random.default_rng(3)), unbroken))
    return other


def _array(columns: Columns) -> Any:
    return np.concatenate([part.ravel() for part in columns.values()]) if isinstance(columns, dict) else columns


@pytest.mark.parametrize(
    "env_id",
    [
        "CartPole-v1",
        "MountainCar-v0",
        "MountainCarContinuous-v0",
        "Pendulum-v1",
        "Acrobot-v1",
        "FrozenLake-v1",
        "Taxi-v4",
        "Blackjack-v1",
        "CliffWalking-v1",
    ],
)
def test_B088_gymnasium_goes_on_to_the_last_bit(env_id: str, same_step: Any) -> None:
    settings = {} if env_id in ("Blackjack-v1", "CliffWalking-v1") else {"max_episode_steps": 31}
    goes_on_exactly(lambda: GymProvider().make(env_id, SLOTS, settings), 50, same_step)


def test_B088_a_state_of_a_restored_environment(same_step: Any) -> None:
    build = lambda: GymProvider().make("CartPole-v1", SLOTS, {})  # noqa: E731
    env = goes_on_exactly(build, 40, same_step)
    state = saved(env)
    assert build().set_state(state) == []


@pytest.mark.parametrize("settings", [{}, {"vectorization": "native"}], ids=["sync", "native"])
@pytest.mark.parametrize("polled", [False, True])
def test_B088_a_state_taken_right_after_restoring_is_the_same(settings: Any, polled: bool, same_step: Any) -> None:
    build = lambda: GymProvider().make("CartPole-v1", SLOTS, settings)  # noqa: E731
    env = build()
    env.reset(5)
    run(env, 23, np.random.default_rng(1))
    once = build()
    assert once.set_state(saved(env)) == []
    if polled:
        once.poll(None)
    twice = build()
    assert twice.set_state(saved(once)) == []
    rest = [twice.poll(None)[DEFAULT_GROUP]]
    again = [once.poll(None)[DEFAULT_GROUP]] if not polled else rest
    for one, other in zip(rest, again, strict=True):
        assert same_step(one, other)


def test_native_cartpole_goes_on_to_the_last_bit(same_step: Any) -> None:
    build = lambda: GymProvider().make("CartPole-v1", SLOTS, {"vectorization": "native"})  # noqa: E731
    for steps in range(12, 24):
        goes_on_exactly(build, steps, same_step)


class Noisy(CountEnv):
    """Observes random numbers of a generator of its own, which ``reset`` does not seed."""

    def __init__(self, make: Callable[[], Any], draw: Callable[[Any], float]) -> None:
        super().__init__(7)
        self.dice = make()
        self.draw = draw

    def observe(self) -> Any:
        return np.array([self.draw(self.dice)], np.float32)


@pytest.mark.parametrize(
    ("make", "draw"),
    [
        (lambda: np.random.default_rng(0), lambda rng: rng.normal()),
        (lambda: np.random.Generator(np.random.MT19937(0)), lambda rng: rng.normal()),
        (lambda: np.random.RandomState(0), lambda rng: rng.normal()),
        (lambda: random.Random(0), lambda rng: rng.gauss(0, 1)),
    ],
    ids=["generator", "mt19937", "random_state", "random"],
)
def test_generators_of_the_environments_own(make: Any, draw: Any, same_step: Any) -> None:
    """Only after the first episode: until then nothing tells how the generator began."""
    env = InProcessEnv([Noisy(make, draw)], "Noisy")
    env.reset(5)
    last = run(env, 16, np.random.default_rng(1))[-1]
    other = InProcessEnv([Noisy(make, draw)], "Noisy")
    assert other.set_state(saved(env)) == []
    _answer(env, last, np.random.default_rng(2))
    _answer(other, other.poll(None)[DEFAULT_GROUP], np.random.default_rng(2))
    rest, again = run(env, 20, np.random.default_rng(3)), run(other, 20, np.random.default_rng(3))
    assert all(map(same_step, rest, again))


def test_wrappers_with_a_state_of_the_episode_come_back(same_step: Any) -> None:
    def build() -> BatchedEnv:
        def one() -> Any:
            env = gymnasium.make("Pendulum-v1", max_episode_steps=9)
            return gymnasium.wrappers.FrameStackObservation(env, 3)

        return GymProvider().adapt(one, SLOTS, "stacked", one())

    goes_on_exactly(build, 14, same_step)


class Remembering(CountEnv):
    """Observes how often it was reset: what no replay of an episode brings back."""

    def __init__(self) -> None:
        super().__init__(5)
        self.resets = 0

    def reset(self, **keywords: Any) -> Any:
        self.resets += 1
        return super().reset(**keywords)

    def observe(self) -> Any:
        return np.array([self.resets], np.float32)


def test_slots_that_do_not_come_back_are_reset_and_named() -> None:
    def build() -> InProcessEnv:
        return InProcessEnv([CountEnv(5), Remembering(), CountEnv(7)], "Mixed")

    env = build()
    env.reset(0)
    run(env, 13, np.random.default_rng(0))
    other = build()
    assert other.set_state(saved(env)) == [1]
    step = other.poll(None)[DEFAULT_GROUP]
    assert step.first.tolist() == [False, True, False]
    assert step.env_step.tolist() == [3, 0, 6]
    assert np.asarray(step.obs)[[0, 2]].tolist() == [[13], [16]]


def test_a_hidden_difference_is_found_in_the_reward_or_the_generator() -> None:
    class Paying(Remembering):
        def observe(self) -> Any:
            return np.zeros(1, np.float32)

        def step(self, action: Any) -> Any:
            obs, _, *rest = super().step(action)
            return obs, float(self.resets), *rest

    class Drawing(Remembering):
        """Draws once more in every third episode."""

        def observe(self) -> Any:
            self.np_random.normal(size=self.resets)
            return np.zeros(1, np.float32)

    def build() -> InProcessEnv:
        return InProcessEnv([Paying(), Drawing()], "Hidden")

    env = build()
    env.reset(0)
    run(env, 12, np.random.default_rng(0))
    assert build().set_state(saved(env)) == [0, 1]


def test_what_raises_when_played_again_is_reset(caplog: pytest.LogCaptureFixture) -> None:
    class Moody(CountEnv):
        def __init__(self, mood: bool) -> None:
            super().__init__(50)
            self.mood = mood

        def step(self, action: Any) -> Any:
            if self.mood and self.t == 3:
                raise OSError("gone")
            return super().step(action)

    env = InProcessEnv([Moody(False)], "Moody")
    env.reset(0)
    run(env, 9, np.random.default_rng(0))
    assert InProcessEnv([Moody(True)], "Moody").set_state(saved(env)) == [0]
    assert "Moody, slot 0, step 4: step() raised OSError: gone" in caplog.text


def test_restarted_slots_are_repeatable_and_go_on_with_fresh_numbers() -> None:
    def build() -> BatchedEnv:
        return GymProvider().make("CartPole-v1", SLOTS, {})

    env = build()
    env.reset(5)
    start = np.array(run(env, 30, np.random.default_rng(0))[0].obs)
    state = saved(env)
    state["reward"][1] = 9.0  # no longer what it was
    one, other = build(), build()
    assert one.set_state(state) == other.set_state(state) == [1]
    first, again = one.poll(None)[DEFAULT_GROUP], other.poll(None)[DEFAULT_GROUP]
    assert np.array_equal(np.asarray(first.obs), np.asarray(again.obs))
    assert not np.array_equal(np.asarray(first.obs)[1], start[1])
    # What follows the restart is restored as well.
    _answer(one, first, np.random.default_rng(1))
    run(one, 10, np.random.default_rng(1))
    assert build().set_state(saved(one)) == []


def test_B082_another_number_of_slots() -> None:
    env = GymProvider().make("CartPole-v1", 4, {})
    env.reset(5)
    last = np.array(run(env, 30, np.random.default_rng(0))[-1].obs)
    fewer, more = (GymProvider().make("CartPole-v1", count, {}) for count in (2, 6))
    assert fewer.set_state(saved(env)) == []
    assert np.array_equal(np.asarray(fewer.poll(None)[DEFAULT_GROUP].obs), last[:2])
    assert more.set_state(saved(env)) == [4, 5]
    step = more.poll(None)[DEFAULT_GROUP]
    assert np.array_equal(np.asarray(step.obs)[:4], last)
    assert step.first.tolist()[4:] == [True, True]


@pytest.mark.parametrize("mode", AutoresetMode)
def test_copies_in_a_plain_vector_environment(mode: AutoresetMode, same_step: Any) -> None:
    def build() -> BatchedEnv:
        def make(num_envs: int) -> Any:
            return SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * num_envs, autoreset_mode=mode)

        return build_env(make, SLOTS, {})

    goes_on_exactly(build, 60, same_step)


def test_statistics_of_a_wrapper_that_outlive_episodes_are_not_restored() -> None:
    def build() -> BatchedEnv:
        return InProcessEnv([gymnasium.wrappers.NormalizeObservation(gymnasium.make("CartPole-v1"))], "Normalized")

    env = build()
    env.reset(5)
    first = env.poll(None)[DEFAULT_GROUP]
    assert build().set_state(saved(env)) == []
    _answer(env, first, np.random.default_rng(0))
    run(env, 100, np.random.default_rng(0))
    assert build().set_state(saved(env)) == [0]


def test_no_state_before_the_first_reset_and_none_of_other_vector_environments() -> None:
    env = GymProvider().make("CartPole-v1", 1, {})
    assert env.get_state() is None
    vector = VectorEnvAdapter(SyncVectorEnv([CountEnv]), "Count")
    vector.reset(0)
    assert vector.get_state() is None


def test_no_state_while_actions_are_under_way() -> None:
    env = GymProvider().make("CartPole-v1", 1, {})
    env.reset(0)
    env.poll(None)
    env.send({DEFAULT_GROUP: (np.arange(1), np.zeros(1, np.int64))})
    with pytest.raises(RuntimeError, match="after poll"):
        env.get_state()


def test_states_that_are_none_of_this_kind() -> None:
    sync = GymProvider().make("CartPole-v1", 2, {})
    native = GymProvider().make("CartPole-v1", 2, {"vectorization": "native"})
    states = []
    for env in (sync, native):
        env.reset(0)
        run(env, 4, np.random.default_rng(0))
        states.append(saved(env))
    with pytest.raises(CheckpointError, match=r"is of a CartPoleVectorEnv, not of a gymnasium\.Env"):
        sync.set_state(states[1])
    with pytest.raises(CheckpointError, match=r"is of a gymnasium\.Env, not"):
        native.set_state(states[0])
    for env, state in zip((sync, native), states, strict=True):
        for key in state:
            with pytest.raises(CheckpointError):
                env.set_state({name: value for name, value in state.items() if name != key})
    for short in ("seed", "reward", "actions_kept"):
        with pytest.raises(CheckpointError, match="different lengths"):
            sync.set_state({**states[0], short: states[0][short][:1]})
    bigger = GymProvider().make("CartPole-v1", 3, {"vectorization": "native"})
    assert bigger.set_state(states[1]) == [2]
    assert bigger.poll(None)[DEFAULT_GROUP].first.tolist() == [False, False, True]


def test_episodes_beyond_the_longest_start_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "LONGEST_EPISODE", 500)
    env = InProcessEnv([CountEnv(10_000), CountEnv(40)], "Count")
    env.reset(0)
    run(env, 1200, np.random.default_rng(0))
    other = InProcessEnv([CountEnv(10_000), CountEnv(40)], "Count")
    assert other.set_state(saved(env)) == [0]
    run(other, 30, np.random.default_rng(0))
    assert InProcessEnv([CountEnv(10_000), CountEnv(40)], "Count").set_state(saved(other)) == []


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 2), max_size=3, unique=True), max_size=900), st.integers(1, 9))
def test_the_log_holds_what_was_done_since_each_episode_began(ends: list[list[int]], scale: int) -> None:
    space = gymnasium.spaces.Box(-9, 9, (2,), np.float64)
    log = ActionLog((space, space), SLOTS)
    expected: list[list[float]] = [[] for _ in range(SLOTS)]
    for time, over in enumerate(ends * scale):
        actions = np.arange(SLOTS * 2).reshape(SLOTS, 2) + 100.0 * time
        log.append(actions)
        for slot in range(SLOTS):
            expected[slot].append(actions[slot, 0])
        log.begin(np.array(over, np.int64))
        for slot in over:
            expected[slot] = []
    copy = ActionLog((space, space), SLOTS)
    copy.replace([actions for slot in range(SLOTS) if (actions := log.of(slot)) is not None])
    for each in (log, copy):
        for slot in range(SLOTS):
            own = each.of(slot)
            assert isinstance(own, np.ndarray)
            assert own[:, 0].tolist() == expected[slot]
    assert len(log._rows) <= max(256, 2 * max(map(len, expected)) + 256)


@pytest.mark.parametrize("nested", [False, True])
def test_environments_that_sample_from_their_spaces(nested: bool, same_step: Any) -> None:
    """They follow the seed like others, and go on like others."""

    class Sampling(CountEnv):
        def __init__(self) -> None:
            super().__init__(6)
            box = gymnasium.spaces.Box(0, 1, (2,), np.float32)
            self.observation_space = gymnasium.spaces.Dict({"a": box, "b": box}) if nested else box

        def observe(self) -> Any:
            return self.observation_space.sample()

    def build() -> BatchedEnv:
        return InProcessEnv([Sampling() for _ in range(SLOTS)], "Sampling")

    starts = []
    for _ in range(2):
        env = build()
        env.reset(5)
        starts.append(_array(env.poll(None)[DEFAULT_GROUP].obs).copy())
    assert np.array_equal(*starts)
    assert len(np.unique(starts[0])) == starts[0].size
    for steps in (3, 20):
        goes_on_exactly(build, steps, same_step)


def test_sampling_from_the_spaces_of_the_group_disturbs_nothing() -> None:
    env = GymProvider().make("CartPole-v1", 2, {})
    env.reset(5)
    run(env, 30, np.random.default_rng(0))
    state = saved(env)
    for space in env.groups[DEFAULT_GROUP]:
        space.sample()
    assert through_a_file(saved(env)).keys() == state.keys()
    assert GymProvider().make("CartPole-v1", 2, {}).set_state(saved(env)) == []
