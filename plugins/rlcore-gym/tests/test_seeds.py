"""Every slot has its own random numbers, and the same ones in every run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from rlcore.env import DEFAULT_GROUP, BatchedEnv
from rlcore.errors import EnvError
from rlcore.testing.environments import CountEnv
from rlcore_gym import GymProvider, InProcessEnv, VectorEnvAdapter
from rlcore_gym.seeds import slot_seeds


def firsts(env: BatchedEnv, seed: int | None) -> Any:
    env.reset(seed)
    return np.array(env.poll(None)[DEFAULT_GROUP].obs)


def test_slot_seeds_are_distinct_and_small() -> None:
    seeds = slot_seeds(7, 10_000)
    assert len(set(seeds)) == 10_000
    assert 0 <= min(seeds) <= max(seeds) < 2**31
    assert slot_seeds(7, 4) == seeds[:4] == [1041839916, 1969781632, 2092892605, 71099000]
    assert slot_seeds(8, 4) != seeds[:4]
    assert slot_seeds(None, 4) != slot_seeds(None, 4)
    assert slot_seeds(2**200, 1) != slot_seeds(0, 1)


@pytest.mark.parametrize("settings", [{}, {"vectorization": "native"}], ids=["sync", "native"])
def test_B061_B065_slots_differ_and_runs_do_not(settings: dict[str, Any]) -> None:
    make = lambda: GymProvider().make("CartPole-v1", 8, settings)  # noqa: E731
    one, other = firsts(make(), 7), firsts(make(), 7)
    assert np.array_equal(one, other)
    assert len(np.unique(one, axis=0)) == 8
    assert not np.array_equal(one, firsts(make(), 8))


def test_B065_a_second_reset_with_the_seed_begins_anew() -> None:
    env = GymProvider().make("CartPole-v1", 3, {})
    one = firsts(env, 7)
    assert not np.array_equal(one, firsts(env, None))
    assert np.array_equal(one, firsts(env, 7))


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_B067_all_slots_of_a_large_pool_are_repeatable(env_id: str, play: Any) -> None:
    actions = np.random.default_rng(0)

    def policy(obs: Any, count: int) -> Any:
        drawn = actions.integers(0, 2, count)
        return drawn if env_id == "CartPole-v1" else drawn[:, None].astype(np.float32)

    runs = []
    for _ in range(2):
        actions = np.random.default_rng(0)
        runs.append(play(GymProvider().make(env_id, 32, {}), 10, policy, 123).polls)
    for one, other in zip(*runs, strict=True):
        assert np.array_equal(one.obs, other.obs)
        assert np.array_equal(one.reward, other.reward)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_vector_environments_that_take_a_list_get_distinct_seeds(mode: AutoresetMode) -> None:
    seeds: list[Any] = []

    class Noting(CountEnv):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            seeds.append(seed)
            return super().reset(seed=seed)

    firsts(VectorEnvAdapter(SyncVectorEnv([Noting] * 3, autoreset_mode=mode), "Noting"), 7)
    assert seeds == slot_seeds(7, 3)


def test_other_vector_environments_get_one_number() -> None:
    seeds: list[Any] = []
    inner = SyncVectorEnv([CountEnv] * 3)

    class Own(VectorEnv[Any, Any, Any]):
        metadata = inner.metadata
        num_envs = 3
        single_observation_space = inner.single_observation_space
        single_action_space = inner.single_action_space

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            seeds.append(seed)
            return inner.reset()

    firsts(VectorEnvAdapter(Own(), "Own"), 7)
    assert seeds == slot_seeds(7, 1)


def test_subprocesses_are_seeded_alike() -> None:
    def build() -> Any:
        import gymnasium

        return gymnasium.make("CartPole-v1")

    env = VectorEnvAdapter(AsyncVectorEnv([build] * 2), "CartPole")
    try:
        assert np.array_equal(firsts(env, 7), firsts(GymProvider().make("CartPole-v1", 2, {}), 7))
    finally:
        env.close()


class Unseeded(CountEnv):
    """Observes random numbers from a generator that is the same in each copy and that no seed reaches."""

    def __init__(self, rank: int = 0) -> None:
        super().__init__()
        self.dice = np.random.default_rng(rank)

    def observe(self) -> Any:
        return self.dice.normal(size=1).astype(np.float32)


def test_B061_copies_that_draw_the_same_numbers_are_an_error() -> None:
    env = InProcessEnv([Unseeded() for _ in range(8)], "Unseeded")
    with pytest.raises(EnvError) as caught:
        env.reset(0)
    assert str(caught.value).startswith(
        "Unseeded: all 8 copies start from the same observation and draw the same random numbers, because 'dice' of "
        "Unseeded does not depend on the seed"
    )


def test_B055_copies_that_were_told_the_same_rank() -> None:
    builds = [lambda: Unseeded(rank) for rank in range(4)]  # noqa: B023, the fault in question
    with pytest.raises(EnvError, match="draw the same random numbers"):
        InProcessEnv([build() for build in builds], "Ranked").reset(0)
    assert len(np.unique(firsts(InProcessEnv([Unseeded(rank) for rank in range(4)], "Ranked"), 0))) == 4


def test_environments_that_always_start_alike_are_none_of_this(play: Any) -> None:
    class FixedMap(CountEnv):
        """Draws its map anew from a fixed seed."""

        def reset(self, **keywords: Any) -> Any:
            self.map = np.random.default_rng(3)
            self.map.normal(size=9)
            return super().reset(**keywords)

    class Prepared(CountEnv):
        """Drew its map once, and keeps the generator."""

        def __init__(self) -> None:
            super().__init__()
            self.map = np.random.default_rng(3)
            self.map.normal(size=9)

    for kind in (CountEnv, FixedMap, Prepared):
        env = InProcessEnv([kind() for _ in range(4)], "Fixed")
        for seed in (0, 1):
            assert firsts(env, seed).tolist() == [[10]] * 4


def test_one_copy_may_draw_as_it_likes() -> None:
    assert firsts(InProcessEnv([Unseeded()], "Unseeded"), 0).shape == (1, 1)


def test_B068_a_seed_changes_no_rules(play: Any) -> None:
    env = GymProvider().make("CartPole-v1", 1, {})
    assert play(env, 5, seed=1).column(1) == play(env, 5, seed=2).column(1) == [1.0] * 5
