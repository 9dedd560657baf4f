"""RayRuntime: workers as Ray actors. It knows nothing of evaluators, policies or optimizers."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray

from rlcore.errors import ConfigError, RlcoreError
from rlcore.runtime.base import Demand, Handle, Resources, Runtime, RuntimeConfig
from rlcore.runtime.inline import InlineRef
from rlcore.runtime.ray import session
from rlcore.runtime.ray.handles import AnyRef, Counted, LocalHandle, RayHandle, RayRef, fetch, put
from rlcore.runtime.ray.session import RayConfig
from rlcore.runtime.ray.worker import ACTOR
from rlcore.runtime.reduction import average_counted, holding_up, in_tree
from rlcore.runtime.sending import name_of, packed, program

#: Seconds that workers get at the end to close what they have open.
CLOSING_S = 2.0

#: The settings beside a count that say how much of a resource each worker needs.
SETTINGS = {"CPU": "cpus", "GPU": "gpus"}

#: Seconds after which what is in use counts as used by others.
SETTLING_S = 2.0


class RayRuntime(Runtime):
    """Runs workers as actors, in a cluster or in a Ray started for this process.

    Arrays in results and arguments are read-only, large ones views of the machine's shared object store. A worker that
    dies stays lost: replacing it is the business of whoever spawned it.
    """

    Config = RayConfig

    def __init__(self, config: RuntimeConfig | None = None) -> None:
        assert config is None or isinstance(config, RayConfig), config
        config = config or RayConfig(cpus=None)
        self._session: session.Session | None = session.enter(config)
        self._start(config.compress_batches)

    def _start(self, packed: bool) -> None:
        self._packed = packed
        #: Its workers, with what is ready once they have started.
        self._handles: dict[RayHandle, RayRef] = {}
        self._closed = False
        self._program: tuple[bytes, Any] = (b"", None)

    # -- workers

    def spawn(self, build: Callable[[], Any], resources: Resources = Resources()) -> RayHandle:
        """Starts a worker and does not wait for it; what ``build()`` raises is raised by the first call on it."""
        if self._closed or not ray.is_initialized():
            raise RlcoreError("this runtime has been closed")
        name = name_of(build)
        made = packed(build, f"worker {name}")
        options = {"num_cpus": resources.cpus, "num_gpus": resources.gpus, "resources": dict(resources.custom)}
        # Events of every call would be sent to the head node, for a dashboard to show.
        actor = ACTOR.options(enable_task_events=False, **options).remote(
            self._known_program(), made, name, self._packed
        )
        handle = RayHandle(actor, name)
        self._handles[handle] = RayRef(actor.started.remote(), handle)
        actor.make.remote()
        return handle

    def _known_program(self) -> Any:
        """A reference to what workers adopt, put once for as long as it stays the same."""
        now = program()
        data, ref = self._program
        if now != data:
            ref = ray.put(now)
            self._program = now, ref
        return ref

    def local(self, worker: Any) -> Handle:
        return LocalHandle(worker)

    def address(self, handle: Handle) -> AnyRef | None:
        return handle.address() if isinstance(handle, RayHandle) else None

    def kill(self, handle: Handle) -> None:
        if isinstance(handle, LocalHandle):
            handle.stop()
            return
        assert isinstance(handle, RayHandle)
        self._handles.pop(handle, None)
        handle.kill()

    def started(self, handle: Handle) -> AnyRef:
        return self._handles.get(handle, InlineRef()) if isinstance(handle, RayHandle) else InlineRef()

    def require(self, demands: Sequence[Demand]) -> None:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        for demand in demands:
            _check(demand, nodes)
        # In a placement group it is all set aside, which looks as if others had it.
        if ray.util.get_current_placement_group() is None:
            _tell_of_waiting(demands)

    def capacity(self) -> Resources:
        return _as_resources(ray.cluster_resources())

    # -- values

    def get(self, refs: Any) -> Any:
        return fetch([refs])[0] if isinstance(refs, RayRef | InlineRef) else fetch(list(refs))

    def put(self, value: Any) -> RayRef:
        return put(value)

    def wait(
        self, refs: Sequence[AnyRef], n: int = 1, timeout: float | None = None
    ) -> tuple[list[AnyRef], list[AnyRef]]:
        ready = {i for i, ref in enumerate(refs) if isinstance(ref, InlineRef)}
        remote = {ref.object_ref: i for i, ref in enumerate(refs) if isinstance(ref, RayRef)}
        lacking = min(n - len(ready), len(remote))
        if lacking > 0:
            # Where the values are is nobody's business yet.
            done, _ = ray.wait(list(remote), num_returns=lacking, timeout=timeout, fetch_local=False)
            ready |= {remote[object_ref] for object_ref in done}
        chosen = set(sorted(ready)[: max(n, 0)])
        split: tuple[list[AnyRef], list[AnyRef]] = ([], [])
        for i, ref in enumerate(refs):
            split[i not in chosen].append(ref)
        return split

    def reduce(self, refs: Sequence[AnyRef], counts: Sequence[Mapping[str, float] | AnyRef]) -> AnyRef:
        """Averaged where the trees are: each group in the worker that gave the first of them."""
        parts: list[Counted] = list(zip(refs, counts, strict=True))
        mean, _ = in_tree(parts, self._average)
        return mean

    def _average(self, parts: Sequence[Counted]) -> Counted:
        workers = [ref.handle for ref, _ in parts if isinstance(ref, RayRef) and ref.handle is not None]
        if workers:
            return workers[0].average(parts)
        try:
            here = [(self.get(ref), self.get(n) if isinstance(n, RayRef | InlineRef) else n) for ref, n in parts]
            mean, total = average_counted(here)
            return self.put(mean), total
        except Exception as error:  # raised as itself by whoever gets the reference
            failed = InlineRef(error=error)
            return failed, failed

    def holding_up(self, ref: AnyRef) -> list[Handle]:
        return holding_up(ref, lambda one: bool(self.wait([one], 1, 0.0)[0]))

    # -- itself

    def now(self) -> float:
        return time.perf_counter()

    def child(self) -> ChildRuntime:
        return ChildRuntime(self._packed)

    def __reduce__(self) -> Any:
        raise TypeError("a runtime stays in its process; what can be sent to a worker is its child()")

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if ray.is_initialized():
            self._end_workers()
        if self._session is not None:
            self._session.leave()

    def _end_workers(self) -> None:
        ending = [handle.actor.end.remote() for handle in self._handles]
        if ending:
            ray.wait(ending, num_returns=len(ending), timeout=CLOSING_S, fetch_local=False)
        for handle in self._handles:
            handle.kill()
        self._handles = {}


class ChildRuntime(RayRuntime):
    """The runtime of a nested driver: it uses the connection of the process that it is in, and never ends that."""

    def __init__(self, packed: bool = False) -> None:
        self._session = None
        self._start(packed)

    def __reduce__(self) -> tuple[type[ChildRuntime], tuple[bool]]:
        return ChildRuntime, (self._packed,)


# -- resources


def _as_resources(found: Mapping[str, float]) -> Resources:
    custom = {
        name: amount
        for name, amount in found.items()
        if name not in ("CPU", "GPU", "memory", "object_store_memory") and not name.startswith("node:")
    }
    return Resources(found.get("CPU", 0.0), found.get("GPU", 0.0), custom)


def _check(demand: Demand, nodes: Sequence[Mapping[str, float]]) -> None:
    """Raises ``ConfigError`` where the nodes, all of them empty, could not hold the workers."""
    each = _by_name(demand.each)
    fitting = sum(_fitting(each, node) for node in nodes)
    if fitting >= demand.count:
        return
    change = f"set {demand.setting} to {int(fitting)} at most" if fitting else f"set {demand.setting}"
    for name, amount in each.items():
        have = sum(node.get(name, 0.0) for node in nodes)
        if have < demand.count * amount:
            if have < amount:
                # Fewer of them would not do either.
                change = f"set {demand.setting.rpartition('.')[0]}.{SETTINGS.get(name, 'custom')}"
            raise ConfigError(f"needs {demand.count * amount:g} {_plural(name)}, the cluster has {have:g}: {change}")
    needed = " and ".join(f"{amount:g} {_plural(name)}" for name, amount in each.items())
    raise ConfigError(
        f"needs {demand.count} times {needed} on one node, the cluster has room for {int(fitting)}: {change}"
    )


def _tell_of_waiting(demands: Sequence[Demand]) -> None:
    """Warns where the workers would fit and others are in their place: they start when these have ended."""
    needed: dict[str, float] = {}
    for demand in demands:
        for name, amount in _by_name(demand.each).items():
            needed[name] = needed.get(name, 0.0) + demand.count * amount
    # What has just ended is taken off the books a moment later.
    end = time.monotonic() + SETTLING_S
    while lacking := _lacking(needed, ray.available_resources()):
        if time.monotonic() > end:
            (name, free), *_ = lacking.items()
            warnings.warn(
                f"needs {needed[name]:g} {_plural(name)}, of which the cluster has {free:g} to give away now: "
                "waiting for others to end",
                stacklevel=4,
            )
            return
        time.sleep(0.05)


def _lacking(needed: Mapping[str, float], free: Mapping[str, float]) -> dict[str, float]:
    """How much is free of what is short."""
    return {name: free.get(name, 0.0) for name, amount in needed.items() if free.get(name, 0.0) < amount - 1e-9}


def _by_name(resources: Resources) -> dict[str, float]:
    """What a worker needs, as Ray calls it."""
    each = {"CPU": resources.cpus, "GPU": resources.gpus, **resources.custom}
    return {name: amount for name, amount in each.items() if amount}


def _fitting(each: Mapping[str, float], node: Mapping[str, float]) -> float:
    return min(((node.get(name, 0.0) + 1e-9) // amount for name, amount in each.items()), default=float("inf"))


def _plural(name: str) -> str:
    return f"{name}s" if name in ("CPU", "GPU") else name
