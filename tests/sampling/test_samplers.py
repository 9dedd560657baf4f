"""The two sampling loops: what they record, and that they record the same where both can run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlcore.batch import SampleBatch
from rlcore.env import BatchedEnv
from rlcore.policy_graph import ActOutput, ActRows, Progress, State
from rlcore.sampling.collect import Collect, Episodes, Fragment
from rlcore.sampling.columnar import ColumnarSampler
from rlcore.sampling.filters import MeanStd, NoFilter, ObservationFilter, leaf_filters
from rlcore.sampling.general import GeneralSampler
from rlcore.sampling.role import Role
from rlcore.testing.environments import Count, TwoAgentEnv


class MemoryPolicy:
    """Acts at random; its state counts the steps of the episode and remembers the first observation."""

    lookahead = 0
    postprocess = None

    def __init__(self, actions: int) -> None:
        self.actions = actions
        self.seen: list[np.ndarray] = []

    def initial_state(self, n: int) -> State:
        return (np.zeros(n, np.float32), np.full(n, -1.0, np.float32))

    def act(
        self,
        obs: Any,
        state: State = (),
        *,
        rows: ActRows | None = None,
        explore: bool = True,
        rng: np.random.Generator,
    ) -> ActOutput:
        assert rows is not None
        count, first = state
        assert (count[rows.first] == 0).all() and (rows.t == count).all()
        self.seen.append(np.array(obs))
        first = np.where(rows.first, obs[:, 0], first).astype(np.float32)
        draws = rng.random(len(obs))
        return ActOutput((draws * self.actions).astype(np.int64), (count + 1, first), {"draw": draws})

    def on_progress(self, progress: Progress) -> None: ...


def make(kind: str, env: BatchedEnv, policy: Any, filter_kind: type[ObservationFilter] = NoFilter) -> Any:
    observation_space, action_space = env.groups["default"]
    role = Role("default", policy, observation_space, action_space, leaf_filters(filter_kind, observation_space))
    rng = np.random.default_rng(3)
    if kind == "columnar":
        return ColumnarSampler(env, role, index=2, explore=True, rng=rng)
    return GeneralSampler(env, {"default": role}, lambda agent_id: "default", index=2, explore=True, rng=rng)


def assert_equal(one: SampleBatch, other: SampleBatch) -> None:
    for kind in ("rows", "cuts"):
        left, right = getattr(one, kind), getattr(other, kind)
        assert sorted(left) == sorted(right)
        for name in left:
            np.testing.assert_array_equal(left[name], right[name], err_msg=f"{kind} {name}")
            assert left[name].dtype == right[name].dtype, name


@pytest.mark.parametrize("next_step", [False, True], ids=["same-step", "next-step"])
@pytest.mark.parametrize("truncate", [False, True], ids=["terminating", "truncating"])
@pytest.mark.parametrize("how", [Fragment(1), Fragment(4), Fragment(25), Episodes(5)], ids=str)
def test_both_loops_give_the_same_batches(how: Collect, truncate: bool, next_step: bool) -> None:
    def batches(kind: str) -> list[Any]:
        env = Count(num_envs=3, length=(2, 3, 5), truncate=truncate, next_step=next_step)
        sampler = make(kind, env, MemoryPolicy(2), MeanStd)
        return [sampler.collect(how) for _ in range(6)]

    for one, other in zip(batches("columnar"), batches("general"), strict=True):
        assert sorted(one.batches) == sorted(other.batches)
        for name in one.batches:
            assert_equal(one.batches[name], other.batches[name])
        assert one.episodes == other.episodes
        assert one.env_steps == other.env_steps


@pytest.mark.parametrize("kind", ["columnar", "general"])
def test_B007_reset_steps_of_next_step_autoreset_are_no_rows(kind: str) -> None:
    env = Count(num_envs=2, length=3, next_step=True)
    batch = make(kind, env, MemoryPolicy(2)).collect(Fragment(25)).batches["default"]
    assert np.bincount(np.repeat(batch.cuts["slot"], batch.cuts["length"])).tolist() == [19, 19]
    same_step = Count(num_envs=2, length=3)
    assert len(make(kind, same_step, MemoryPolicy(2)).collect(Fragment(25)).batches["default"]) == 50


@pytest.mark.parametrize("kind", ["columnar", "general"])
@pytest.mark.parametrize("fragment", [3, 50])
def test_B151_fragments_shorter_or_longer_than_episodes_keep_every_step(kind: str, fragment: int) -> None:
    sampler = make(kind, Count(num_envs=1, length=5), MemoryPolicy(2))
    rows, returns = 0, []
    for _ in range(150 // fragment):
        collected = sampler.collect(Fragment(fragment))
        rows += len(collected.batches["default"])
        returns += [episode.episode_return for episode in collected.episodes]
    assert rows == 150
    assert returns == [5.0] * 30


@pytest.mark.parametrize("kind", ["columnar", "general"])
def test_B014_each_slot_has_its_own_returns(kind: str) -> None:
    sampler = make(kind, Count(num_envs=2, length=(2, 5)), MemoryPolicy(2))
    episodes = sampler.collect(Fragment(20)).episodes
    assert [e.episode_return for e in episodes if e.slot == 0] == [2.0] * 10
    assert [e.episode_return for e in episodes if e.slot == 1] == [5.0] * 4


@pytest.mark.parametrize("kind", ["columnar", "general"])
def test_B015_the_policy_sees_the_first_observation_of_every_episode(kind: str) -> None:
    policy = MemoryPolicy(2)
    make(kind, Count(num_envs=1, length=3), policy).collect(Fragment(6))
    assert np.concatenate(policy.seen)[:, 0].tolist() == [10, 11, 12, 10, 11, 12]


@pytest.mark.parametrize("kind", ["columnar", "general"])
def test_pieces_end_on_the_true_last_observation(kind: str) -> None:
    env = Count(num_envs=1, length=3, truncate=True)
    batch = make(kind, env, MemoryPolicy(2)).collect(Fragment(5)).batches["default"]
    assert batch["obs"][:, 0].tolist() == [10, 11, 12, 10, 11]
    assert batch.cuts["start"].tolist() == [0, 3]
    assert batch.cuts["last_obs"][:, 0].tolist() == [13, 12]
    assert batch.cuts["bootstrap"].tolist() == [True, True]
    assert batch["truncated"].tolist() == [False, False, True, False, False]
    assert batch["t"].tolist() == [0, 1, 2, 0, 1]


@pytest.mark.parametrize("kind", ["columnar", "general"])
def test_B128_B125_states_are_cut_with_the_pieces(kind: str) -> None:
    sampler = make(kind, Count(num_envs=1, length=10), MemoryPolicy(2))
    cuts = [sampler.collect(Fragment(4)).batches["default"].cuts for _ in range(3)]
    assert [cut["state_in.0"].tolist() for cut in cuts] == [[0.0], [4.0], [8.0, 0.0]]
    assert [cut["last_state.0"].tolist() for cut in cuts] == [[4.0], [8.0], [10.0, 2.0]]
    assert [cut["state_in.1"].tolist() for cut in cuts] == [[-1.0], [10.0], [10.0, -1.0]]


@pytest.mark.parametrize("kind", ["columnar", "general"])
def test_episodes_are_whole_and_exactly_as_many_as_asked(kind: str) -> None:
    sampler = make(kind, Count(num_envs=4, length=(2, 3, 5, 4)), MemoryPolicy(2))
    collected = sampler.collect(Episodes(6))
    batch = collected.batches["default"]
    assert len(collected.episodes) == batch.pieces == 6
    assert sorted(batch.cuts["slot"].tolist()) == [0, 0, 1, 1, 2, 3]
    assert (batch["terminated"][batch.last_rows()]).all()
    assert collected.env_steps == 4 * 6  # until slot 1 has its two episodes of three steps


def test_a_policy_that_returns_too_few_actions_is_named() -> None:
    class Short(MemoryPolicy):
        def act(self, obs: Any, state: State = (), **kwargs: Any) -> ActOutput:
            out = super().act(obs, state, **kwargs)
            return ActOutput(np.asarray(out.actions)[:-1], out.state, out.extras)

    with pytest.raises(Exception, match="actions"):
        make("columnar", Count(num_envs=3), Short(2)).collect(Fragment(2))


def test_several_agents_and_policies_in_one_environment() -> None:
    env = TwoAgentEnv(num_envs=4, agent_ids=("a", "b"), separate_groups=True, lengths=(3, 5))
    roles = {
        name: Role(name, MemoryPolicy(2), *env.groups[group], leaf_filters(NoFilter, env.groups[group][0]))
        for name, group in (("pa", "a"), ("pb", "b"))
    }
    rng = np.random.default_rng(0)
    sampler = GeneralSampler(env, roles, {"a": "pa", "b": "pb"}.__getitem__, index=0, explore=True, rng=rng)
    collected = sampler.collect(Fragment(10))
    assert collected.env_steps == 40
    assert set(collected.batches["pa"].cuts["length"].tolist()) == {3}
    assert collected.batches["pb"].cuts["length"].tolist() == [5, 5] * 4
    assert len(collected.episodes) == 8
    total = sum(float(batch["rewards"].sum()) for batch in collected.batches.values())
    assert sum(episode.episode_return for episode in collected.episodes) == pytest.approx(total)
    assert collected.agents is not None and set(collected.agents) == {"a", "b"}


@pytest.mark.parametrize("kind", ["columnar", "general"])
@pytest.mark.parametrize("next_step", [False, True])
def test_a_sampler_goes_on_exactly_from_its_state(kind: str, next_step: bool) -> None:
    def fresh() -> tuple[Any, BatchedEnv]:
        env = Count(num_envs=3, length=(2, 3, 5), next_step=next_step)
        return make(kind, env, MemoryPolicy(2)), env

    sampler, env = fresh()
    sampler.collect(Fragment(4))
    state, env_state, rng_state = sampler.get_state(), env.get_state(), sampler._rng.bit_generator.state
    expected = [sampler.collect(Fragment(4)) for _ in range(3)]
    again, other_env = fresh()
    again._rng.bit_generator.state = rng_state
    assert env_state is not None
    again.set_state(state, other_env.set_state(env_state))
    for want in expected:
        got = again.collect(Fragment(4))
        assert_equal(want.batches["default"], got.batches["default"])
        assert want.episodes == got.episodes


@pytest.mark.parametrize("kind", ["columnar", "general"])
def test_nobody_acts_where_every_slot_is_only_reset(kind: str) -> None:
    policy = MemoryPolicy(2)
    batch = make(kind, Count(num_envs=2, length=3, next_step=True), policy).collect(Fragment(9)).batches["default"]
    assert min(len(seen) for seen in policy.seen) == 2
    assert batch["obs"][:, 0].tolist() == [10, 11, 12, 10, 11, 12, 10] * 2
