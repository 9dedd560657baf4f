"""Candidates that are followed by workers: the same plans, bit for bit, however many there are; and workers lost."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlcore.planning.actor import PlanningActor, PlanningConfig
from rlcore.planning.following import FollowedByWorkers, shares
from rlcore.runtime.base import Runtime
from rlcore.runtime.inline import InlineRuntime
from rlcore.runtime.sim import SimRuntime

PLACE = Box(-5.0, 5.0, (3,), np.float32)
FORCE = Box(-2.0, 2.0, (1,), np.float32)
#: 5 environments times 16 candidates: products of a shape that makes other sums than those of fewer rows would.
SMALL = {"horizon": 3, "population": 16, "elites": 4, "iterations": 2}
OBSERVED = np.random.default_rng(6).standard_normal((5, 3)).astype(np.float32)


@pytest.fixture(scope="module", params=["inline", "sim", pytest.param("ray", marks=pytest.mark.xdist_group("ray"))])
def runtime(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    """Each in turn."""
    if request.param == "ray":
        pytest.importorskip("ray")
        from rlcore.runtime.ray import RayConfig, RayRuntime

        made: Runtime = RayRuntime(RayConfig(cpus=2))
    else:
        made = InlineRuntime() if request.param == "inline" else SimRuntime()
    yield made
    made.close()


def planner(space: Any = FORCE, actors: int = 0, members: int = 3) -> PlanningActor:
    settings = {"members": members, "planner": {**SMALL, "actors": actors}, "model": {"hidden": [64, 64]}}
    return PlanningActor.begun(PLACE, space, PlanningConfig.model_validate(settings), np.random.default_rng(5))


def acted(own: PlanningActor, explore: bool = True) -> list[np.ndarray]:
    """Actions and plans of two steps, with other weights in the second."""
    state, found, rng = own.initial_state(5), list[np.ndarray](), np.random.default_rng(1)
    for scale in (1.0, 1.5):
        own.set_weights({name: array * np.float32(scale) for name, array in own.get_weights().items()})
        out = own.act(OBSERVED, state, explore=explore, rng=rng)
        state = out.state
        found += [out.actions, state[0]]
    return found


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("space", [FORCE, Discrete(3)])
@pytest.mark.parametrize("explore", [True, False])
def test_plans_are_the_same_whatever_the_number_of_workers(space: Any, explore: bool) -> None:
    alone = acted(planner(space), explore)
    for actors in (1, 2, 3, 7):
        own = planner(space, actors)
        own.spread(InlineRuntime())
        assert same(acted(own, explore), alone)


def test_they_are_the_same_on_every_runtime(runtime: Runtime) -> None:
    own = planner(actors=2)
    own.spread(runtime)
    assert isinstance(own._following, FollowedByWorkers)
    assert same(acted(own), acted(planner()))
    own.act_alone()
    assert not isinstance(own._following, FollowedByWorkers)


def test_one_that_is_lost_is_replaced_and_has_the_weights_as_they_are(runtime: Runtime) -> None:
    if not runtime.isolates:
        pytest.skip("nobody is lost in the driver's own process")
    own, alone = planner(actors=3), planner()
    own.spread(runtime)
    acted(own), acted(alone)
    following: Any = own._following
    runtime.kill(following._crew.members[1].handle)
    with pytest.warns(RuntimeWarning, match="planner 1 was lost and is replaced"):
        found = own.act(OBSERVED, own.initial_state(5), explore=False, rng=np.random.default_rng(0))
    expected = alone.act(OBSERVED, alone.initial_state(5), explore=False, rng=np.random.default_rng(0))
    assert np.array_equal(found.actions, expected.actions)
    assert [member.life for member in following._crew.members] == [0, 1, 0]


def test_workers_stay_with_whoever_asked_for_them() -> None:
    own = planner(actors=2)
    own.spread(InlineRuntime())
    copy = pickle.loads(pickle.dumps(own))
    assert not isinstance(copy._following, FollowedByWorkers)
    assert same(acted(copy), acted(planner()))


def test_without_a_wish_for_workers_there_are_none() -> None:
    own = planner()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own.spread(InlineRuntime())
    assert not isinstance(own._following, FollowedByWorkers)


def test_members_are_shared_out_evenly_and_in_order() -> None:
    assert shares(5, 2) == [range(0, 2), range(2, 5)]
    assert shares(5, 5) == shares(5, 9) == [range(i, i + 1) for i in range(5)]
    assert shares(7, 3) == [range(0, 2), range(2, 4), range(4, 7)]
