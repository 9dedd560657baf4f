"""What there is in a simulation: the driver, its workers, the values that they hold, and the time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

import cloudpickle

from rlcore.errors import RlcoreError
from rlcore.runtime.sending import name_of, packed
from rlcore.runtime.sim.actors import Actor
from rlcore.runtime.sim.calls import Body, Bulk, Crossed, Delivery, SimRef, method_body
from rlcore.runtime.sim.chance import Chance, Faults
from rlcore.runtime.sim.config import SimConfig
from rlcore.runtime.sim.journal import Journal
from rlcore.runtime.sim.machines import Machines
from rlcore.runtime.sim.network import Place, transfer
from rlcore.runtime.sim.programs import Program, Programs
from rlcore.runtime.sim.timeline import Timeline
from rlcore.runtime.snapshot import sized_snapshot

# Handles and children that have been pickled find their way back to their cluster by its key, which is always of the
# same length: what is sent takes time by its size.
_clusters: WeakValueDictionary[str, Cluster] = WeakValueDictionary()
_numbers = itertools.count()


class Cluster:
    """One simulation, of which there may be several in a process."""

    def __init__(self, config: SimConfig) -> None:
        self.config = config
        self.faults = Faults(config.rates.limit)
        self.chance = Chance(config, 0, self.faults)
        self.timeline: Timeline[Program] = Timeline(config, Chance(config, 1, self.faults))
        self.programs = Programs(self.timeline, Place("driver"))
        self.journal = Journal()
        self.machines = Machines(config, self.timeline)
        self.key = f"{next(_numbers):020d}"
        _clusters[self.key] = self
        #: How often a runtime was among what has crossed.
        self.children = 0
        #: The most calls that any worker had been sent and not answered.
        self.most_in_flight = 0
        #: The workers that there are, by place.
        self._actors: dict[Place, Actor] = {}
        self._handles: WeakValueDictionary[int, SimHandle] = WeakValueDictionary()
        self._spawned = itertools.count()
        self._inside: Actor | None = None

    # -- who acts

    def place(self) -> Place:
        """The process in which something is done now."""
        return self._inside.place if self._inside is not None else self.programs.current.place

    @contextmanager
    def within(self, actor: Actor) -> Iterator[None]:
        """While entered, it is ``actor`` that acts, and it cannot wait."""
        before, self._inside = self._inside, actor
        try:
            yield
        finally:
            self._inside = before

    def wait(self, refs: Sequence[SimRef], n: int, until: float | None = None) -> None:
        """Whoever acts waits for ``n`` of ``refs``, or until then."""
        self._check_may_wait()
        self.programs.wait(refs, n, until)

    def sleep(self, until: float) -> None:
        """Whoever acts does nothing until then."""
        if until > self.timeline.now:
            self._check_may_wait()
            self.programs.sleep(until)

    def _check_may_wait(self) -> None:
        if self._inside is not None:
            raise RlcoreError("a worker waits for others only through a runtime that it was sent: child()")

    # -- workers

    def spawn(self, build: Callable[[], Any], cpus: float) -> SimHandle:
        """A new worker, once there are so many CPUs for it. ``UserError`` where ``build`` cannot be sent."""
        name = name_of(build)
        data = packed(build, f"worker {name}")
        children = self.children
        copied = cloudpickle.loads(data)
        number = next(self._spawned)
        handle = SimHandle(self, number, name)
        spawner = self._actors.get(self.place())
        # Its size would be that of the paths of this machine and of this program's code: it takes no time.
        actor = handle.actor = Actor(self, number, handle, Crossed(copied, 0, self.children != children))
        self._actors[actor.place] = actor
        self._handles[number] = handle
        if spawner is not None:
            spawner.spawned.append(actor)
        self.machines.place(actor, cpus)
        return handle

    def forget(self, actor: Actor) -> None:
        """A worker is gone."""
        self._actors.pop(actor.place, None)
        self.machines.leave(actor)

    def handle(self, number: int) -> SimHandle:
        """The handle of a worker, which somebody still has."""
        return self._handles[number]

    def close(self) -> None:
        """Ends all workers and nested drivers."""
        for actor in list(self._actors.values()):
            actor.die("the runtime was closed", seen=True)
        self.programs.close()

    # -- values

    def cross(self, value: Any) -> Crossed:
        """A snapshot of ``value``; raises where it cannot be sent."""
        children = self.children
        copied, size = sized_snapshot(value)
        if isinstance(copied, Bulk):
            size = copied.size
        return Crossed(copied, size, self.children != children)

    def put(self, value: Any) -> SimRef:
        """A reference to a snapshot, which is where it was put."""
        ref = SimRef()
        ref.settle(self.cross(value), self.place())
        return ref

    def failed(self, error: Exception) -> SimRef:
        """A reference to what could not even be sent."""
        ref = SimRef()
        ref.settle(error, self.place())
        return ref

    def bring(self, refs: Sequence[SimRef], place: Place) -> Delivery:
        """Sends the values of settled references to ``place``. Raises what the first failed one raises."""
        delivery = Delivery(place, self.timeline.now)
        for ref in refs:
            if ref.error is not None:
                raise ref.error
        for ref in refs:
            assert ref.crossed is not None
            if place in ref.places or ref.crossed.size <= self.config.inline_bytes:
                continue
            source = ref.source()
            arrival = self.transfer(source, place, ref.crossed.size) + self.chance.latency()
            delivery.moving.append((ref, source))
            delivery.complete_at = max(delivery.complete_at, arrival)
        return delivery

    def transfer(self, source: Place, target: Place, size: int) -> float:
        """When a message of so many bytes has gone over."""
        bulk_s = size / self.config.bytes_per_s if self.config.bytes_per_s is not None else 0.0
        return transfer(source, target, self.timeline.now, self.config.message_s + bulk_s)

    def values(self, refs: Sequence[SimRef]) -> list[Any]:
        """The values of references, waited for and brought to whoever asks."""
        for ref in refs:
            if not ref.settled:
                self.wait([ref], 1)
            if ref.error is not None:
                raise ref.error
        while True:
            delivery = self.bring(refs, self.place())
            self.sleep(delivery.complete_at)
            # Whoever else has what did not come sends it.
            if delivery.arrive():
                break
        return [ref.value for ref in refs]


class SimHandle:
    """A worker of a simulated cluster; can itself be sent to workers."""

    actor: Actor

    def __init__(self, cluster: Cluster, number: int, name: str) -> None:
        self.number = number
        self._cluster = cluster
        self._name = name

    def __repr__(self) -> str:
        return f"{self.number}, {self._name}"

    def __reduce__(self) -> Any:
        return _known_handle, (self._cluster.key, self.number)

    @property
    def worker(self) -> Any:
        """The object itself, to be looked at without a message; None where there is none (any more)."""
        return self.actor.worker

    def submit(self, method: str, *args: Any, returns: int = 1) -> Any:
        """Sends the call; see :class:`rlcore.runtime.base.Handle`."""
        refs = self.send(method, method_body(method), args, returns)
        return refs[0] if returns == 1 else refs

    def send(self, method: str, body: Body, args: Sequence[Any], returns: int) -> tuple[SimRef, ...]:
        """Sends what the worker is to do with ``args``."""
        try:
            if self.actor.gone is not None and self.actor.seen:
                raise self.actor.loss()
            given = [arg if isinstance(arg, SimRef) else self._cluster.cross(arg) for arg in args]
        except Exception as error:  # raised as itself by whoever gets the reference
            return (self._cluster.failed(error),) * returns
        return self.actor.send(method, body, given, returns, self._cluster.place())


def _known_handle(key: str, number: int) -> SimHandle:
    return cluster_of(key).handle(number)


def cluster_of(key: str) -> Cluster:
    """The simulation of that key. ``RlcoreError`` where it is over, or of another process."""
    found = _clusters.get(key)
    if found is None:
        raise RlcoreError("the simulation that this belongs to is over, or that of another process")
    return found
