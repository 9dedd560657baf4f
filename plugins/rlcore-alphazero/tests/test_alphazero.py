"""The driver: same seed, same games; the gate; whoever is lost; going on from a state."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from rlcore.errors import OptimizerError
from rlcore.evaluator_set import EvaluatorSet
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.runtime.base import Ref, Runtime
from rlcore.runtime.inline import InlineRuntime
from rlcore.runtime.sim import SimConfig, SimRuntime
from rlcore.sampling.collect import Fragment
from rlcore.tree_search.matches import MatchScore
from rlcore_alphazero import AlphaZero, AlphaZeroConfig

pytest.importorskip("rlcore_torch")

POLICY: dict[str, Any] = {
    "search": {"simulations": 6},
    "model": {"hidden": [16], "shared_value": True},
    "learning_rate": 1e-2,
}
SETTINGS: dict[str, Any] = {
    "learning_starts": 50,
    "minibatch_size": 32,
    "capacity": 400,
    "learnt_per_sampled": 2.0,
    "gate": {"every": 2, "openings": 4, "win_rate": 0.0},
}


def evaluator(index: int, policy: dict[str, Any] = POLICY, env: str = "batched:tictactoe") -> PolicyEvaluator:
    from rlcore_torch import AlphaZero as TorchAlphaZero

    return PolicyEvaluator(
        env=env,
        graph=TorchAlphaZero,
        config=policy,
        num_envs=6,
        collect=Fragment(8),
        rng=np.random.SeedSequence(1, spawn_key=(index,)),
        index=index,
    )


def made(runtime: Runtime | None = None, count: int = 2, policy: Any = POLICY, **settings: Any) -> AlphaZero:
    runtime = runtime or InlineRuntime()
    make = functools.partial(evaluator, policy=policy)
    own = EvaluatorSet(runtime, make(0), [functools.partial(make, i) for i in range(count)])
    return AlphaZero(own.local, own, runtime, AlphaZeroConfig(**{**SETTINGS, "seed": 3, **settings}), ("default",))


def games(optimizer: AlphaZero) -> dict[str, bytes]:
    """What self-play has put into the replay buffer, and what was played in matches."""
    columns = optimizer.get_state()["replay"]["columns"]
    found = {name: column.tobytes() for name, column in columns.items()}
    return found | {str(i): match.games.moves.tobytes() for i, match in enumerate(optimizer.matches)}


def weights(optimizer: AlphaZero) -> bytes:
    own = optimizer.get_weights()["default"]
    return b"".join(own[name].tobytes() for name in sorted(own))


def test_the_same_seed_gives_the_same_games_on_inline_and_on_a_simulated_cluster() -> None:
    found = []
    for runtime in (InlineRuntime(), SimRuntime(SimConfig(seed=5)), SimRuntime(SimConfig(seed=6))):
        optimizer = made(runtime, candidate_evaluators=2)
        results = [optimizer.step() for _ in range(6)]
        counts = [(one.env_steps, one.updates, one.learnt_rows, one.stats["default"]["generation"]) for one in results]
        found.append((games(optimizer), weights(optimizer), counts))
    assert found[0] == found[1] == found[2]
    assert found[0][2][-1][3] == 3.0


def test_other_seeds_give_other_games() -> None:
    one, other = made(seed=3), made(seed=4)
    for optimizer in (one, other):
        for _ in range(4):
            optimizer.step()
    assert games(one) != games(other)


@pytest.mark.parametrize("reuse", [False, True])
def test_it_goes_on_exactly_from_a_state(reuse: bool) -> None:
    policy = {**POLICY, "search": {"simulations": 6, "reuse": reuse}}
    whole, first, second = made(policy=policy), made(policy=policy), made(policy=policy)
    for _ in range(6):
        whole.step()
    for _ in range(3):
        first.step()
    second.set_state(first.get_state())
    second.evaluators.set_state(first.evaluators.get_state())
    for _ in range(3):
        second.step()
    assert games(second) == games(whole)
    assert weights(second) == weights(whole)
    assert second.generation == whole.generation


def test_a_candidate_that_is_no_better_is_rejected_and_its_games_are_kept() -> None:
    optimizer = made(gate={"every": 2, "openings": 5, "win_rate": 1.0})
    before = weights(optimizer)
    for _ in range(4):
        result = optimizer.step()
    assert weights(optimizer) == before
    assert result.stats["default"]["generation"] == 0.0
    assert [match.accepted for match in optimizer.matches] == [False, False] or optimizer.matches[-1].score.rate < 1.0
    match = optimizer.matches[-1]
    assert match.score.games == 10
    assert match.games.moves.shape[0] == len(match.games.returns) == 10
    np.testing.assert_array_equal(match.games.returns.sum(axis=1), 0.0)


def played_out(optimizer: AlphaZero, candidate: float, best: float) -> MatchScore:
    """A match of players whose networks' outputs are so many times as large."""
    trained = trained_weights()
    judge = next(iter(optimizer._judges.by_place.values()))
    versions = []
    for factor in (candidate, best):
        scaled = {name: array * factor if name.endswith("out.weight") else array for name, array in trained.items()}
        versions.append({"default": scaled})
    score, _ = optimizer.runtime.get(judge.submit("match", *versions, 40, np.random.SeedSequence(7)))
    return score


@functools.cache
def trained_weights() -> dict[str, Any]:
    """Of a policy that has learnt for a moment from proven positions."""
    optimizer = made(policy={**POLICY, "search": {"simulations": 40, "random_moves": 0.3}}, learnt_per_sampled=30.0)
    for _ in range(8):
        optimizer.step()
    state = optimizer.get_state()["learner"]
    found: dict[str, Any] = state["learner"]["graphs"]["default"]["weights"]
    return found


def test_a_better_candidate_passes_the_gate_and_a_worse_one_does_not() -> None:
    optimizer = made(gate={"every": 2, "openings": 40, "simulations": 2, "opening_moves": 3})
    # Turned round, the network prefers what it knows to be bad.
    better, worse = played_out(optimizer, 1.0, -1.0), played_out(optimizer, -1.0, 1.0)
    assert better.rate >= 0.55 > worse.rate
    assert better.games == worse.games == 80


def lost_part(optimizer: AlphaZero, part: str) -> Any:
    crews = {
        "self-play": optimizer.evaluators.crew,
        "replay": optimizer._memory,
        "model optimizer": optimizer._learner,
        "candidate": optimizer._judges,
    }
    return crews[part].members[0].handle


@pytest.mark.parametrize("part", ["self-play", "replay", "model optimizer", "candidate"])
def test_whoever_is_lost_the_best_player_is_not(part: str) -> None:
    optimizer = made(SimRuntime(SimConfig(seed=2)))
    for _ in range(4):
        optimizer.step()
    best, generation = weights(optimizer), optimizer.generation
    assert generation == 2
    optimizer.runtime.kill(lost_part(optimizer, part))
    assert weights(optimizer) == best
    results = [optimizer.step() for _ in range(8)]
    # It goes on from where it was, and learns again.
    assert optimizer.generation > generation
    assert sum(one.updates for one in results) > 0
    handles = optimizer.evaluators.handles
    acting = optimizer.runtime.get([handle.submit("get_weights") for handle in handles])
    for own in acting:
        assert b"".join(own["default"][name].tobytes() for name in sorted(own["default"])) == weights(optimizer)


def test_a_model_optimizer_that_takes_anothers_place_goes_on_from_where_that_was() -> None:
    optimizer = made(SimRuntime(SimConfig(seed=2)), gate={"every": 100})
    for _ in range(4):
        optimizer.step()
    before = optimizer.get_state()["learner"]
    optimizer.runtime.kill(lost_part(optimizer, "model optimizer"))
    after = optimizer.get_state()["learner"]
    for name, array in before["learner"]["graphs"]["default"]["weights"].items():
        np.testing.assert_array_equal(array, after["learner"]["graphs"]["default"]["weights"][name])


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return bool(one.keys() == other.keys()) and all(same(one[key], other[key]) for key in one)
    return bool(np.array_equal(one, other))


class Watched:
    """A runtime that notes what comes to the driver."""

    came: list[Any]

    def get(self, refs: Ref | Sequence[Ref]) -> Any:
        found = super().get(refs)  # type: ignore[misc]
        self.came += found if isinstance(refs, list) else [found]
        return found


class WatchedInline(Watched, InlineRuntime):
    pass


class WatchedSim(Watched, SimRuntime):
    pass


@pytest.mark.parametrize("runtime", [WatchedInline(), WatchedSim(SimConfig(seed=5))], ids=["inline", "sim"])
def test_marks_bring_nothing_to_the_driver_and_what_is_saved_is_of_the_mark(runtime: Any) -> None:
    runtime.came = []
    optimizer = made(runtime)
    for _ in range(4):
        optimizer.step()
    state = copy.deepcopy(optimizer.get_state()["replay"])
    runtime.came.clear()
    optimizer.replay_memory.mark()
    assert all(value is None for value in runtime.came)
    for _ in range(3):
        optimizer.step()
    assert same(optimizer.replay_memory.get_marked(), state)
    assert not same(optimizer.get_state()["replay"]["columns"], state["columns"])


def test_a_replay_buffer_that_takes_anothers_place_gives_what_it_has() -> None:
    optimizer = made(SimRuntime(SimConfig(seed=2)))
    for _ in range(4):
        optimizer.step()
    optimizer.replay_memory.mark()
    optimizer.runtime.kill(lost_part(optimizer, "replay"))
    for _ in range(2):
        optimizer.step()
    marked = optimizer.replay_memory.get_marked()
    assert same(marked, optimizer.get_state()["replay"])
    assert 0 < len(marked["columns"]["actions"]) < 400


def test_nothing_is_learnt_before_there_is_enough() -> None:
    optimizer = made(learning_starts=150)
    assert [optimizer.step().updates > 0 for _ in range(4)] == [False, False, True, True]


def test_a_policy_graph_that_does_not_plan_is_refused_by_name() -> None:
    from rlcore.testing.environments.contexts import Contexts
    from rlcore.testing.linear import LinearPG

    local = PolicyEvaluator(env=Contexts, graph=LinearPG, rng=0)
    runtime = InlineRuntime()
    with pytest.raises(OptimizerError, match="needs a policy graph that searches"):
        AlphaZero(local, EvaluatorSet(runtime, local), runtime, AlphaZeroConfig(), ("default",))


def test_three_players_learn_what_each_of_them_gets() -> None:
    pytest.importorskip("pyspiel")
    make = functools.partial(evaluator, env="openspiel:pig(players=3,winscore=4,horizon=20)")
    runtime = InlineRuntime()
    own = EvaluatorSet(runtime, make(0), [functools.partial(make, 0)])
    config = AlphaZeroConfig(**{**SETTINGS, "learning_starts": 20, "seed": 3})
    optimizer = AlphaZero(own.local, own, runtime, config, ("default",))
    results = [optimizer.step() for _ in range(3)]
    assert results[-1].updates > 0 and optimizer.matches[-1].games.seats.shape[1] == 3
    targets = optimizer.get_state()["replay"]["columns"]["value_targets"]
    assert targets.shape[1] == 3 and np.isfinite(targets).all()
    # Whoever wins gets 1, the others half of that less than nothing.
    decided = targets[(targets == 1.0).any(axis=1)]
    assert len(decided) and {-0.5, 1.0} <= set(decided.ravel().tolist())
    assert optimizer.get_weights()["default"]["value.out.weight"].shape == (16, 3)
