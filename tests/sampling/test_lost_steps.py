"""An environment that is lost takes the step with it that was under way, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.breaking import BreakingCount

from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import ActOutput, ActRows, Progress, State
from rlcore.sampling.collect import Episodes, Fragment
from rlcore.sampling.columnar import ColumnarSampler
from rlcore.sampling.filters import NoFilter, leaf_filters
from rlcore.sampling.general import GeneralSampler
from rlcore.sampling.role import Role

KINDS = ("columnar", "general")


class Counting:
    """Its state counts the steps of the episode."""

    lookahead = 0
    postprocess: Any = None

    def initial_state(self, n: int) -> State:
        return (np.zeros(n, np.float32),)

    def act(self, obs: Any, state: State = (), *, rows: ActRows, explore: bool, rng: np.random.Generator) -> ActOutput:
        assert (rows.t == state[0]).all() and (rows.first == (rows.t == 0)).all()
        return ActOutput(rng.integers(0, 2, len(obs)), (state[0] + 1,), {})

    def on_progress(self, progress: Progress) -> None: ...


def sampler(kind: str, env: Any) -> Any:
    spaces = env.groups["default"]
    role = Role("default", Counting(), *spaces, leaf_filters(NoFilter, spaces[0]))  # type: ignore[arg-type]
    rng = np.random.default_rng(3)
    if kind == "columnar":
        return ColumnarSampler(env, role, index=0, explore=True, rng=rng)
    return GeneralSampler(env, {"default": role}, lambda agent_id: "default", index=0, explore=True, rng=rng)


@pytest.mark.parametrize("kind", KINDS)
def test_B049_a_fragment_keeps_what_was_before(kind: str) -> None:
    collected = sampler(kind, BreakingCount(2, 4, {(2, 0)})).collect(Fragment(6))
    batch = collected.batches["default"]
    # Slot 0: 10 11, then the action on 12 is lost; 10 11 12. Slot 1: 10 11 12 13, 10 11.
    assert batch["obs"].ravel().tolist() == [10, 11, 10, 11, 12, 10, 11, 12, 13, 10, 11]
    assert batch["truncated"].tolist() == [False, True] + [False] * 9
    assert batch["terminated"].tolist() == [False] * 8 + [True, False, False]
    assert batch["t"].tolist() == [0, 1, 0, 1, 2, 0, 1, 2, 3, 0, 1]
    assert batch.cuts["last_obs"].ravel().tolist() == [12, 13, 14, 12]
    assert batch.cuts["bootstrap"].tolist() == [True, True, False, True]
    assert batch.cuts["state_in.0"].tolist() == [0, 0, 0, 0]
    assert batch.cuts["last_state.0"].tolist() == [2, 3, 4, 2]
    assert batch.cuts["eps_id"].tolist() == [0, 2, 1, 3]
    assert [(one.eps_id, one.episode_return) for one in collected.episodes] == [(1, 4.0)]
    assert (collected.env_steps, collected.lost_steps, collected.broken) == (12, 1, ())


@pytest.mark.parametrize("kind", KINDS)
def test_B049_across_fragments(kind: str) -> None:
    one = sampler(kind, BreakingCount(1, 5, {(3, 0), (4, 0), (7, 0)}))
    first, second = one.collect(Fragment(3)), one.collect(Fragment(8))
    assert first.batches["default"].cuts["last_obs"].ravel().tolist() == [13]
    batch = second.batches["default"]
    # The actions on 13 and on the 10 after it are lost, later that on 12; then five steps to the end are begun.
    assert batch["obs"].ravel().tolist() == [10, 11, 10, 11, 12]
    assert batch["truncated"].tolist() == [False, True, False, False, False]
    assert batch.cuts["last_obs"].ravel().tolist() == [12, 13]
    assert (batch.cuts["eps_id"].tolist(), second.broken, second.lost_steps) == ([1, 2], (0,), 3)
    third = one.collect(Fragment(2))
    assert [(done.eps_id, done.length, done.episode_return) for done in third.episodes] == [(2, 5, 5.0)]


@pytest.mark.parametrize("kind", KINDS)
def test_whole_episodes_are_whole(kind: str) -> None:
    collected = sampler(kind, BreakingCount(2, 3, {(1, 0), (2, 0), (7, 1)})).collect(Episodes(4))
    batch = collected.batches["default"]
    assert batch["obs"].ravel().tolist() == [10, 11, 12] * 4
    assert batch.cuts["bootstrap"].tolist() == [False] * 4
    assert [one.episode_return for one in collected.episodes] == [3.0] * 4
    # Two steps of slot 0, then one more; the third episode of slot 1 is not asked for.
    assert collected.lost_steps == 3


def test_both_loops_agree_and_playing_is_sampling_without_the_rows() -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        breaks = {(int(step), int(slot)) for step, slot in rng.integers(0, (40, 3), (int(rng.integers(9)), 2))}
        how = [Fragment(int(rng.integers(1, 9))), Episodes(int(rng.integers(1, 8)))][int(rng.integers(2))]
        length, truncate = int(rng.integers(1, 6)), bool(rng.integers(2))
        one, other = (sampler(kind, BreakingCount(3, length, breaks, truncate)) for kind in KINDS)
        for _ in range(4):
            left, right = one.collect(how), other.collect(how)
            for part in ("rows", "cuts"):
                mine, yours = (getattr(side.batches["default"], part) for side in (left, right))
                assert mine.keys() == yours.keys()
                for name in mine:
                    np.testing.assert_array_equal(mine[name], yours[name], err_msg=name)
            assert left.episodes == right.episodes
            assert (left.env_steps, left.lost_steps) == (right.env_steps, right.lost_steps)
            assert left.broken == right.broken
        if isinstance(how, Episodes):
            for kind in KINDS:
                played = sampler(kind, BreakingCount(3, length, breaks, truncate)).play(how)
                again = sampler(kind, BreakingCount(3, length, breaks, truncate)).collect(how)
                assert played.episodes == again.episodes
                assert (played.env_steps, played.lost_steps) == (again.env_steps, again.lost_steps)


def test_the_evaluator_counts_lost_steps_and_keeps_no_row_for_an_episode_that_is_gone() -> None:
    class TwoStep(Counting):
        lookahead = 2

        def initial_state(self, n: int) -> State:
            return ()

        def act(self, obs: Any, state: State = (), *, rows: ActRows, explore: bool, rng: Any) -> ActOutput:
            return ActOutput(rng.integers(0, 2, len(obs)), (), {})

        def postprocess(self, batch: Any, other_agents: Any = None) -> Any:
            return batch

        def get_state(self) -> Any:
            return {}

    evaluator = PolicyEvaluator(
        env=lambda num_envs: BreakingCount(num_envs, 9, {(3, 0)}),
        policies={"default": TwoStep()},  # type: ignore[dict-item]
        num_envs=2,
        collect=Fragment(3),
        rng=0,
    )
    sizes = [len(evaluator.sample()["default"]) for _ in range(2)]  # type: ignore[index]
    # Two rows of each slot wait; those of slot 0 are never completed, those of slot 1 are.
    assert sizes == [2, 0 + 3]
    assert evaluator.metrics().lost_steps == 1
    assert evaluator.metrics().lost_steps == 0
