"""States that outlive the machines of the workers that they are of, kept by other workers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import simulated as sim

from rlcore.crew import Crew
from rlcore.errors import ValueLost
from rlcore.evaluator_set import EvaluatorSet
from rlcore.runtime.base import Resources
from rlcore.runtime.inline import InlineRuntime
from rlcore.runtime.sim import SimConfig, SimRuntime
from rlcore.snapshots import SnapshotKeeper, Snapshots

KEEPERS = 7


class Maker:
    """Has a state, which is as large as nothing that comes with an answer."""

    def snapshot(self, number: int) -> tuple[None, dict[str, Any]]:
        return None, {"number": number, "weights": np.full(1000, number)}

    def resume(self, state: dict[str, Any]) -> int:
        return int(state["weights"][-1])


class World:
    """A worker whose state is kept, and those who keep it."""

    def __init__(self, turn: int = 0, **config: Any) -> None:
        self.runtime = SimRuntime(SimConfig(inline_bytes=0, **config))
        self.evaluators = EvaluatorSet(self.runtime, sim.evaluator(0))
        self.keepers = self._crew([SnapshotKeeper] * KEEPERS)
        self.maker: Any = self.runtime.spawn(Maker)
        self.snapshots = Snapshots(self.runtime, self.keepers, "maker", 10, turn)

    def _crew(self, builders: Any) -> Crew:
        return self.evaluators.others("keeper", builders, Resources(), lambda handle, index, life: [])

    def keep(self, number: int) -> None:
        _, state = self.maker.submit("snapshot", number, returns=2)
        self.snapshots.keep(state, number)

    def settle(self) -> None:
        """Everything that is under way comes to an end."""
        for _ in range(4):
            self.keepers.fill()
            self.runtime.wait([handle.submit("keep", "other", 0) for handle in self.keepers.handles], KEEPERS)
            self.snapshots.take_in()

    def holders(self) -> list[int]:
        return [i for i, handle in self.keepers.by_place.items() if "maker" in handle.worker._kept]  # type: ignore[attr-defined]

    def lose_machine(self, *handles: Any) -> None:
        for handle in handles:
            handle.actor.die("its machine is gone", machine=True)

    def replace(self, *places: int) -> None:
        """Their machines go, and others take their places."""
        for place in places:
            self.lose_machine(self.keepers.by_place[place])
            self.keepers.ask_one(place, "keep", "other", 0)

    def resumed(self) -> int:
        """What a new worker goes on from."""
        number: int = self.runtime.get(self.runtime.spawn(Maker).submit("resume", self.snapshots.last))
        return number


@pytest.mark.parametrize(("turn", "places"), [(0, [0, 2, 4]), (1, [1, 3, 5]), (6, [1, 3, 6])])
def test_a_few_keep_it_who_are_far_apart(turn: int, places: list[int]) -> None:
    world = World(turn)
    assert world.snapshots.last is None
    world.keep(1)
    world.settle()
    assert world.holders() == places
    world.lose_machine(world.maker, *[world.keepers.by_place[place] for place in places[:2]])
    assert world.resumed() == 1


def test_until_somebody_has_it_the_one_before_is_the_last() -> None:
    world = World()
    world.keep(1)
    world.settle()
    world.keep(2)
    world.lose_machine(world.maker)
    world.settle()
    assert world.resumed() == 1


def test_whoever_is_slow_goes_without_and_an_older_one_takes_no_newer_ones_place() -> None:
    world = World(costs={"keep": 1.0}, slow_workers=[{"worker": 0, "factor": 50.0}])
    world.keep(1)
    world.runtime.wait([world.runtime.put(None), world.keepers.by_place[2].submit("keep", "other", 0)], 2)
    world.snapshots.take_in()
    world.keep(2)
    world.settle()
    kept = [world.keepers.by_place[i].worker._kept["maker"]["number"] for i in (0, 2, 4)]  # type: ignore[attr-defined]
    assert kept == [1, 2, 2] and world.resumed() == 2


def test_whoever_takes_the_place_of_one_that_had_it_is_given_it() -> None:
    world = World()
    world.keep(1)
    world.settle()
    world.lose_machine(world.maker)
    for _ in range(2):
        for place in (0, 2, 4):
            world.replace(place)
            world.settle()
            assert world.holders() == [0, 2, 4] and not world.snapshots.gone
    assert world.resumed() == 1


def test_it_is_gone_with_all_who_had_it_and_another_may_be_kept() -> None:
    world = World()
    world.keep(1)
    world.settle()
    world.lose_machine(world.maker)
    world.replace(0, 2, 4)
    world.settle()
    assert world.snapshots.gone
    with pytest.raises(ValueLost):
        world.resumed()
    world.maker = world.runtime.spawn(Maker)
    world.keep(2)
    assert not world.snapshots.gone
    world.settle()
    assert world.holders() == [0, 2, 4] and world.resumed() == 2


def test_what_the_driver_has_is_never_gone() -> None:
    world = World()
    world.keep(1)
    world.settle()
    world.snapshots.begin_with(world.runtime.put({"weights": np.full(3, 9)}))
    world.replace(0, 2, 4)
    world.settle()
    assert not world.snapshots.gone and world.resumed() == 9


def test_updates_that_are_lost_are_counted_once() -> None:
    world = World()
    world.snapshots.begin_with(world.runtime.put(None))
    assert world.snapshots.lost(10) == 10
    world.keep(14)
    world.settle()
    assert [world.snapshots.lost(updates) for updates in (16, 16, 19)] == [2, 0, 3]


def test_workers_keep_those_of_several_apart() -> None:
    keeper = SnapshotKeeper()
    other = SnapshotKeeper()
    keeper.keep("one", 1)
    keeper.keep("two", 2)
    keeper.keep("one", 3)
    assert dict(keeper._kept) == {"one": 3, "two": 2} and not other._kept


def test_in_one_process_it_is_kept_too() -> None:
    runtime = InlineRuntime()
    evaluators = EvaluatorSet(runtime, sim.evaluator(0))
    snapshots = Snapshots(runtime, evaluators.crew, "maker", 10)
    snapshots.keep(runtime.put(5), 1)
    snapshots.take_in()
    assert runtime.get(snapshots.last) == 5 and evaluators.local._kept == {"maker": 5}
