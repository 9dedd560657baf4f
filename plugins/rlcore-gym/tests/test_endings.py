"""One rule for endings, whatever the source: an own loop, or a vector environment of any autoreset mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rlcore.env import DEFAULT_GROUP, BatchedEnv
from rlcore.errors import EnvError
from rlcore.testing.environments import AliasingCountEnv, CountEnv, DictCountEnv
from rlcore_gym import GymProvider, InProcessEnv, VectorEnvAdapter

Make = Callable[[list[Callable[[], Any]]], BatchedEnv]


def in_process(builds: list[Callable[[], Any]]) -> BatchedEnv:
    return InProcessEnv([build() for build in builds], "Count")


def provided(builds: list[Callable[[], Any]]) -> BatchedEnv:
    source = SyncVectorEnv(builds, autoreset_mode=AutoresetMode.SAME_STEP)
    return GymProvider().adapt(lambda: None, len(builds), "Count", source)


def vector(mode: AutoresetMode, copy: bool = True) -> Make:
    def make(builds: list[Callable[[], Any]]) -> BatchedEnv:
        return VectorEnvAdapter(SyncVectorEnv(builds, copy=copy, autoreset_mode=mode), "Count")

    return make


SAME_STEP_SOURCES = {
    "in_process": in_process,
    "provided": provided,
    "same_step": vector(AutoresetMode.SAME_STEP),
    "disabled": vector(AutoresetMode.DISABLED),
    "disabled_own_buffer": vector(AutoresetMode.DISABLED, copy=False),
    "same_step_own_buffer": vector(AutoresetMode.SAME_STEP, copy=False),
}
SOURCES = {
    **SAME_STEP_SOURCES,
    "next_step": vector(AutoresetMode.NEXT_STEP),
    "next_step_own_buffer": vector(AutoresetMode.NEXT_STEP, copy=False),
}
#: Not those of Gymnasium that reset, over the same array, before anyone else sees the final observation.
CAREFUL = {name: make for name, make in SOURCES.items() if not name.startswith("same_step")}


@pytest.fixture(params=SOURCES.values(), ids=SOURCES)
def make(request: pytest.FixtureRequest) -> Make:
    return request.param


@pytest.mark.parametrize("truncate", [False, True])
def test_B001_B002_B003_a_row_that_ends_carries_its_flag_and_the_true_final_observation(
    make: Make, truncate: bool, play: Any
) -> None:
    played = play(make([lambda: CountEnv(3, truncate)]), 9)
    assert played.column(0)[:6] == [10, 11, 12, 10, 11, 12]
    assert played.column(4)[:6] == [11, 12, 13, 11, 12, 13]
    assert played.column(1)[:6] == [1.0] * 6
    assert played.column(2)[:3] == [False, False, not truncate]
    assert played.column(3)[:3] == [False, False, truncate]


def test_B007_steps_that_only_reset_are_no_transitions(play: Any) -> None:
    for name, make in SOURCES.items():
        played = play(make([lambda: CountEnv(3)] * 2), 25)
        expected = 19 if name.startswith("next_step") else 25
        assert [len(own) for own in played.transitions] == [expected, expected], name


def test_B014_only_the_slot_that_ends_is_reset(make: Make, play: Any) -> None:
    played = play(make([lambda: CountEnv(2), lambda: CountEnv(5)]), 40)
    assert set(played.returns[0]) == {2.0}
    assert set(played.returns[1]) == {5.0}


def test_B015_the_first_observation_after_a_reset_is_acted_on(make: Make, play: Any) -> None:
    seen: list[float] = []

    def policy(obs: Any, count: int) -> Any:
        seen.extend(obs[:, 0].tolist())
        return np.zeros(count, np.int64)

    play(make([lambda: CountEnv(3)]), 8, policy)
    assert seen[:6] == [10, 11, 12, 10, 11, 12]


@pytest.mark.parametrize("make", CAREFUL.values(), ids=CAREFUL)
def test_B021_an_array_that_the_environment_writes_again_is_copied_in_time(make: Make, play: Any) -> None:
    played = play(make([lambda: AliasingCountEnv(3, True)] * 2), 12)
    for slot in range(2):
        assert played.column(0, slot)[:3] == [10, 11, 12]
        assert played.column(4, slot)[:3] == [11, 12, 13]


@pytest.mark.parametrize("make", CAREFUL.values(), ids=CAREFUL)
def test_B022_the_same_for_the_keys_of_a_dict(make: Make, play: Any) -> None:
    played = play(make([lambda: DictCountEnv(3, True)] * 2), 12)
    own = [(obs["a"].item(), after["a"].item(), after["b"].tolist()) for obs, _, _, _, after in played.transitions[1]]
    assert own[:4] == [(10, 11, [-1, -1]), (11, 12, [-2, -2]), (12, 13, [-3, -3]), (10, 11, [-1, -1])]


@pytest.mark.parametrize("from_reset", [True, False])
def test_B021_one_array_for_all_copies_is_copied_in_time(from_reset: bool, play: Any) -> None:
    shared = np.zeros(1, np.float32)

    class Shared(CountEnv):
        def observe(self) -> Any:
            shared[0] = 10 + self.t
            return shared if from_reset or self.t else shared.copy()

    env = in_process([lambda: Shared(2), lambda: Shared(5)])
    for _ in range(2):
        played = play(env, 10)
        assert played.column(0, 0)[:4] == [10, 11, 10, 11]
        assert played.column(0, 1)[:6] == [10, 11, 12, 13, 14, 10]
        assert played.column(4, 0)[:2] == [11, 12]
    state = env.get_state()
    assert state is not None
    assert env.set_state(state) == []
    assert play(env, 10, seed=None).column(0, 1)[:5] == [10, 11, 12, 13, 14]


def test_same_step_reset_puts_the_new_episode_into_the_row_that_ends_the_old_one() -> None:
    for name, make in SAME_STEP_SOURCES.items():
        env = make([lambda: CountEnv(1), lambda: CountEnv(2)])
        env.reset(0)
        env.poll(None)
        env.send({DEFAULT_GROUP: (np.arange(2), np.zeros(2, np.int64))})
        step = env.poll(None)[DEFAULT_GROUP]
        assert step.terminated.tolist() == [True, False], name
        assert step.first.tolist() == [True, False], name
        assert step.needs_action.tolist() == [True, True], name
        assert step.env_step.tolist() == [0, 1], name
        assert step.episode_over.tolist() == [True, False], name
        assert np.asarray(step.obs).tolist() == [[10], [11]], name
        assert np.asarray(step.final_obs).tolist() == [[11]], name


def test_a_reset_in_the_middle_of_episodes(make: Make, play: Any) -> None:
    env = make([lambda: CountEnv(4), lambda: CountEnv(5)])
    play(env, 3)
    played = play(env, 3)
    assert played.column(0, 1) == [10, 11, 12]
    assert played.polls[0].first.tolist() == [True, True]
    assert played.polls[0].reward.tolist() == [0, 0]
    assert played.polls[-1].env_step.tolist() == [3, 3]


def test_next_step_reset_leaves_out_one_turn() -> None:
    env = SOURCES["next_step"]([lambda: CountEnv(1), lambda: CountEnv(2)])
    env.reset(0)
    env.poll(None)
    env.send({DEFAULT_GROUP: (np.arange(2), np.zeros(2, np.int64))})
    step = env.poll(None)[DEFAULT_GROUP]
    assert step.needs_action.tolist() == [False, True]
    assert step.first.tolist() == [False, False]
    assert np.asarray(step.final_obs).tolist() == [[11]]
    with pytest.raises(ValueError, match="actions for 2 slots, but 1 wait"):
        env.send({DEFAULT_GROUP: (np.arange(2), np.zeros(2, np.int64))})
    env.send({DEFAULT_GROUP: (np.array([1]), np.zeros(1, np.int64))})
    step = env.poll(None)[DEFAULT_GROUP]
    assert step.needs_action.tolist() == [True, False]
    assert step.first.tolist() == [True, False]
    assert step.env_step.tolist() == [0, 2]
    assert np.asarray(step.obs)[0].tolist() == [10]


def test_all_slots_ending_at_once_need_no_send() -> None:
    env = SOURCES["next_step"]([lambda: CountEnv(1)] * 2)
    env.reset(0)
    env.poll(None)
    env.send({DEFAULT_GROUP: (np.arange(2), np.zeros(2, np.int64))})
    assert not env.poll(None)[DEFAULT_GROUP].needs_action.any()
    step = env.poll(None)[DEFAULT_GROUP]
    assert step.first.all()
    assert step.needs_action.all()


@pytest.mark.parametrize("env_id", ["CartPole-v1", "MountainCarContinuous-v0"])
def test_time_limits_end_like_the_wrapper_does(env_id: str, play: Any) -> None:
    """The outer TimeLimit is not called but counted; with and without it the episodes are the same."""
    fast = GymProvider().make(env_id, 3, {"max_episode_steps": 7})
    wrapped = GymProvider().adapt(
        lambda: gymnasium.Wrapper(gymnasium.make(env_id, max_episode_steps=7)),
        3,
        env_id,
        gymnasium.Wrapper(gymnasium.make(env_id, max_episode_steps=7)),
    )
    one, other = play(fast, 40), play(wrapped, 40)
    for slot in range(3):
        assert sum(one.column(3, slot)) == 40 // 7
        for index in range(5):
            assert np.array_equal(np.array(one.column(index, slot)), np.array(other.column(index, slot)))


def test_the_last_step_of_a_time_limit_may_terminate_too(play: Any) -> None:
    env = gymnasium.wrappers.TimeLimit(CountEnv(3), 3)
    env.unwrapped.spec = gymnasium.envs.registration.EnvSpec("Count-v0", entry_point=CountEnv)
    played = play(InProcessEnv([env], "Count"), 3)
    assert (played.column(2)[-1], played.column(3)[-1]) == (True, True)


def test_limits_of_different_copies(play: Any) -> None:
    gymnasium.register("CountForLimits-v0", CountEnv, kwargs={"length": 100})
    try:
        envs = [gymnasium.make("CountForLimits-v0", max_episode_steps=limit) for limit in (4, 6)]
        played = play(InProcessEnv(envs, "Count"), 24)
    finally:
        del gymnasium.registry["CountForLimits-v0"]
    assert played.returns == [[4.0] * 6, [6.0] * 4]


def test_B020_a_vector_environment_without_a_stated_mode_is_refused() -> None:
    source = SyncVectorEnv([CountEnv])
    source.metadata = {}
    with pytest.raises(EnvError, match="SyncVectorEnv does not say what it does when an episode ends"):
        VectorEnvAdapter(source, "Count")


def test_B003_same_step_without_final_observations_is_an_error(play: Any) -> None:
    class Forgetful(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            return (*super().step(actions)[:4], {})

    source = Forgetful([CountEnv], autoreset_mode=AutoresetMode.SAME_STEP)
    with pytest.raises(EnvError, match=r"step 3: an episode ended, but info has no 'final_obs'"):
        play(VectorEnvAdapter(source, "Count"), 3)


def test_final_observations_as_one_batch(play: Any) -> None:
    class Batched(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            *result, info = super().step(actions)
            if "final_obs" in info:
                rows = [np.zeros(1) if row is None else row for row in info["final_obs"]]
                info["final_obs"] = np.stack(rows).astype(np.float32)
            return (*result, info)

    source = Batched([lambda: CountEnv(2), lambda: CountEnv(3)], autoreset_mode=AutoresetMode.SAME_STEP)
    played = play(VectorEnvAdapter(source, "Count"), 6)
    assert played.column(4, 0) == [11, 12] * 3
    assert played.column(4, 1) == [11, 12, 13] * 2


def test_B014_a_reset_mask_that_is_ignored_is_noticed(play: Any) -> None:
    class ResetsAll(SyncVectorEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return super().reset(seed=seed)

    source = ResetsAll([lambda: CountEnv(2), lambda: CountEnv(5)], autoreset_mode=AutoresetMode.DISABLED)
    with pytest.raises(EnvError, match=r"reset_mask for slots \[0\] changed the observations of others"):
        play(VectorEnvAdapter(source, "Count"), 5)


def test_native_cartpole_passes_through_the_rule(play: Any) -> None:
    played = play(GymProvider().make("CartPole-v1", 4, {"vectorization": "native", "max_episode_steps": 5}), 17)
    assert [len(own) for own in played.transitions] == [17] * 4
    assert played.returns == [[5.0] * 3 if len(own) == 3 else own for own in played.returns]
    assert all(played.column(3, slot)[4::5] == [True] * 3 for slot in range(4))
