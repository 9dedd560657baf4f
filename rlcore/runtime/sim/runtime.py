"""SimRuntime: the contract of runtimes on a simulated cluster, which does what there is to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlcore.errors import ConfigError, RlcoreError, ValueLost, WorkerLost
from rlcore.runtime.base import Demand, Handle, Resources, Runtime, RuntimeConfig
from rlcore.runtime.reduction import average_counted, holding_up, in_tree
from rlcore.runtime.sim.calls import Crossed, SimRef, parts_of
from rlcore.runtime.sim.chance import Chance
from rlcore.runtime.sim.cluster import Cluster, SimHandle, cluster_of
from rlcore.runtime.sim.config import SimConfig
from rlcore.runtime.sim.journal import Journal

#: Random numbers of the driver's own objects begin here, beyond those of all workers.
_LOCAL_STREAMS = 1 << 32

Counted = tuple[SimRef, SimRef | Mapping[str, float]]


class SimRuntime(Runtime):
    """Runs workers in this process, one thing at a time, in an order and at virtual times that a seed decides.

    Workers are objects of this process that share nothing: what is sent to them is copied, their ``build`` too.
    """

    Config = SimConfig

    def __init__(self, config: RuntimeConfig | None = None) -> None:
        assert config is None or isinstance(config, SimConfig), config
        self._begin(Cluster(config or SimConfig()))

    def _begin(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._handles: list[SimHandle] = []
        self._locals = 0
        self._closed = False

    # -- workers

    def spawn(self, build: Callable[[], Any], resources: Resources = Resources()) -> SimHandle:
        """Starts a worker and does not wait for it; what ``build()`` raises is raised by the first call on it."""
        if self._closed:
            raise RlcoreError("this runtime has been closed")
        handle = self._cluster.spawn(build, resources.cpus)
        self._handles.append(handle)
        return handle

    def local(self, worker: Any) -> Handle:
        self._locals += 1
        chance = Chance(self._cluster.config, _LOCAL_STREAMS + self._locals, self._cluster.faults)
        return LocalHandle(self._cluster, worker, chance)

    def kill(self, handle: Handle) -> None:
        if isinstance(handle, LocalHandle):
            handle.stop()
            return
        assert isinstance(handle, SimHandle)
        self._handles = [other for other in self._handles if other is not handle]
        handle.actor.die("it was killed", seen=True)

    def started(self, handle: Handle) -> SimRef:
        return handle.actor.started if isinstance(handle, SimHandle) else self.put(None)

    def require(self, demands: Sequence[Demand]) -> None:
        have = float(self._cluster.config.cpus)
        for demand in demands:
            needed = demand.count * demand.each.cpus
            if needed > have:
                fitting = int(have // demand.each.cpus)
                raise ConfigError(
                    f"needs {needed:g} CPUs, the simulated cluster has {have:g} (runtime.cpus): "
                    f"set {demand.setting} to {fitting} at most"
                )

    def capacity(self) -> Resources:
        return Resources(cpus=self._cluster.machines.cpus)

    # -- values

    def get(self, refs: Any) -> Any:
        return self._cluster.values([refs])[0] if isinstance(refs, SimRef) else self._cluster.values(list(refs))

    def put(self, value: Any) -> SimRef:
        return self._cluster.put(value)

    def wait(
        self, refs: Sequence[SimRef], n: int = 1, timeout: float | None = None
    ) -> tuple[list[SimRef], list[SimRef]]:
        n = min(n, len(refs))
        if sum(ref.settled for ref in refs) < n:
            self._cluster.wait(refs, n, None if timeout is None else self.now() + max(timeout, 0.0))
        ready = [i for i, ref in enumerate(refs) if ref.settled][: max(n, 0)]
        chosen = set(ready)
        return [refs[i] for i in ready], [ref for i, ref in enumerate(refs) if i not in chosen]

    def reduce(self, refs: Sequence[SimRef], counts: Sequence[Mapping[str, float] | SimRef]) -> SimRef:
        """Averaged where the trees are: each group in the worker that gave the first of them."""
        parts: list[Counted] = list(zip(refs, counts, strict=True))
        mean, _ = in_tree(parts, self._average)
        return mean

    def _average(self, parts: Sequence[Counted]) -> Counted:
        workers = [ref.handle for ref, _ in parts if isinstance(ref.handle, SimHandle)]
        trees, given = [tree for tree, _ in parts], [count for _, count in parts]
        if workers:
            mean, total = workers[0].send("average", lambda _, values: _averaged(values), [*trees, *given], 2)
            mean.parts = tuple(trees)
            return mean, total
        try:
            found = [self.get(count) if isinstance(count, SimRef) else count for count in given]
            here, total_here = _averaged([*self.get(trees), *found])
            return self.put(here), total_here
        except Exception as error:  # raised as itself by whoever gets the reference
            failed = self._cluster.failed(error)
            return failed, failed

    def holding_up(self, ref: SimRef) -> list[Handle]:
        return holding_up(ref, lambda one: bool(self.wait([one], 1, 0.0)[0]))

    # -- itself

    def now(self) -> float:
        """Virtual seconds since the beginning."""
        return self._cluster.timeline.now

    @property
    def journal(self) -> Journal:
        """What has happened: equal digests, equal runs."""
        return self._cluster.journal

    @property
    def faults(self) -> int:
        """How many things have gone wrong that were planned, or came at their rate."""
        return self._cluster.faults.count

    @property
    def events(self) -> int:
        """How many things have happened."""
        return self._cluster.timeline.count

    @property
    def most_in_flight(self) -> int:
        """The most calls that any worker had been sent and not answered."""
        return self._cluster.most_in_flight

    def child(self) -> ChildRuntime:
        return ChildRuntime(self._cluster)

    def __reduce__(self) -> Any:
        raise TypeError("a runtime stays in its process; what can be sent to a worker is its child()")

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._cluster.close()


class ChildRuntime(SimRuntime):
    """The runtime of a nested driver, in the same simulation. It ends its own workers and nothing else."""

    def __init__(self, cluster: Cluster) -> None:
        self._begin(cluster)

    def __reduce__(self) -> Any:
        return _child_of, (self._cluster.key,)

    def close(self) -> None:
        self._closed = True
        for handle in self._handles:
            handle.actor.die("its runtime was closed", seen=True)
        self._handles = []


def _child_of(key: str) -> ChildRuntime:
    cluster = cluster_of(key)
    cluster.children += 1
    return ChildRuntime(cluster)


class LocalHandle:
    """An object of the driver's own: a call runs when it is submitted, and the driver is busy with it."""

    def __init__(self, cluster: Cluster, worker: Any, chance: Chance) -> None:
        self._cluster = cluster
        self._worker = worker
        self._chance = chance

    def __repr__(self) -> str:
        return f"the driver's {type(self._worker).__name__}"

    def submit(self, method: str, *args: Any, returns: int = 1) -> Any:
        """Runs the call now; see :class:`rlcore.runtime.base.Handle`."""
        fate = self._chance.fate(method)
        refs = tuple(SimRef() for _ in range(returns))
        outcomes: Sequence[Crossed | Exception]
        try:
            if self._worker is None:
                raise WorkerLost(self, "it was killed")
            values = [self._value(arg) for arg in args]
            result = getattr(self._worker, method)(*values)
            outcomes = [self._cluster.cross(part) for part in parts_of(result, returns)]
        except Exception as error:  # raised as itself by whoever gets the reference
            outcomes = [error] * returns
        self._cluster.sleep(self._cluster.timeline.now + fate.run_s)
        for ref, outcome in zip(refs, outcomes, strict=True):
            ref.settle(outcome, self._cluster.place())
        return refs[0] if returns == 1 else refs

    def _value(self, arg: Any) -> Any:
        if not isinstance(arg, SimRef):
            return self._cluster.cross(arg).value
        try:
            return self._cluster.values([arg])[0]
        except WorkerLost as loss:
            raise ValueLost.of(loss) from loss

    def stop(self) -> None:
        """Lets go of the object; further calls fail with ``WorkerLost``."""
        worker, self._worker = self._worker, None
        if hasattr(worker, "close"):
            worker.close()


def _averaged(values: Sequence[Any]) -> tuple[Any, Any]:
    """The average of trees, which their counts follow, and its counts."""
    half = len(values) // 2
    return average_counted(list(zip(values[:half], values[half:], strict=True)))
