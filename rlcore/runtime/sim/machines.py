"""The CPUs of a simulated cluster: who has them, who waits for some, and those that come and go with their machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlcore.runtime.sim.config import Away, SimConfig
from rlcore.runtime.sim.timeline import Timeline

if TYPE_CHECKING:
    from rlcore.runtime.sim.actors import Actor
    from rlcore.runtime.sim.programs import Program


class Machines:
    """Workers have their CPUs from their start to their end, and start in the order in which they were spawned.

    The first machine is the one that is always there.
    """

    def __init__(self, config: SimConfig, timeline: Timeline[Program]) -> None:
        steady = config.cpus - sum(machine.cpus for machine in config.machines)
        self._cpus = [steady, *(machine.cpus for machine in config.machines)]
        self._free = list(map(float, self._cpus))
        self._there = [True] * len(self._free)
        self._on: dict[Actor, tuple[int, float]] = {}
        self._waiting: dict[Actor, float] = {}
        for number, machine in enumerate(config.machines, start=1):
            self._plan(number, machine.away, timeline)

    def _plan(self, number: int, away: Sequence[Away], timeline: Timeline[Program]) -> None:
        for absence in away:
            if absence.since > 0:
                timeline.at(absence.since, lambda: self._go(number))
            else:
                self._there[number] = False
            if absence.until is not None:
                timeline.at(absence.until, lambda: self._come_back(number))

    @property
    def cpus(self) -> float:
        """Those of the machines that are there."""
        return float(sum(cpus for cpus, there in zip(self._cpus, self._there, strict=True) if there))

    def place(self, actor: Actor, cpus: float) -> None:
        """The worker starts as soon as there is room for it."""
        self._waiting[actor] = cpus
        self._start_those_that_fit()

    def leave(self, actor: Actor) -> None:
        """The worker is gone, or does not wait any more."""
        self._waiting.pop(actor, None)
        if actor in self._on:
            number, cpus = self._on.pop(actor)
            self._free[number] += cpus
            self._start_those_that_fit()

    def _start_those_that_fit(self) -> None:
        for actor, cpus in list(self._waiting.items()):
            number = next((i for i, free in enumerate(self._free) if self._there[i] and free >= cpus), None)
            if number is None:
                return
            del self._waiting[actor]
            self._free[number] -= cpus
            self._on[actor] = number, cpus
            actor.begin()

    def _go(self, number: int) -> None:
        self._there[number] = False
        for actor in [actor for actor, (where, _) in self._on.items() if where == number]:
            actor.die("its machine is gone", machine=True)

    def _come_back(self, number: int) -> None:
        self._there[number] = True
        self._start_those_that_fit()
