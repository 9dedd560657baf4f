"""A simulated cluster for ``es``: its driver and branches are the real ones and are timed, its evaluators are light.

Evaluators take the time that is stated and give outcomes like real ones, of real size. Packing messages, and unpacking
them, is timed where it is done. Processes of one machine share its link and what has come to it; everyone has a
processor of its own.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import pickle
import time
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

import numpy as np
from es_costs import HIDDEN, EsCosts
from gymnasium.spaces import Box
from ray_calls import CallCosts
from simulated_driver import BYTES_PER_S, LATENCY_S, TimedCalls, TimedDriver, TimedHandle

import rlcore_es.tree
from rlcore.batch import DEFAULT_POLICY
from rlcore.evaluator_messages import Metrics
from rlcore.evaluator_set import EvaluatorSet
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.runtime.ray.crossing import crossing
from rlcore.runtime.sim import Cost, SimConfig
from rlcore.runtime.sim.calls import Delivery, SimRef
from rlcore.runtime.sim.cluster import Cluster
from rlcore.runtime.sim.network import Place
from rlcore.runtime.sim.runtime import ChildRuntime
from rlcore.sampling.collect import Fragment
from rlcore.sampling.episode import Episode
from rlcore.sampling.filters import MeanStd
from rlcore.testing.environments import Drawn
from rlcore_es import ES, ESConfig, exact_statistics
from rlcore_es.branch import Branch
from rlcore_es.population import Outcome, Tasks

#: Steps of an episode, and how much the time of a pair varies: deviation of its logarithm.
EPISODE_STEPS, SPREAD = 1000, 0.25
#: Processes on a machine, as on those of the paper.
PER_MACHINE = 64
#: One message in so many of a kind is packed and unpacked once more to be timed.
TIMED = 16
#: Different statistics of observations that outcomes have.
KINDS = 8


@dataclasses.dataclass(frozen=True)
class Load:
    """What became of one generation of ``pairs`` on a cluster: ``fan_out`` 0 is no tree.

    Seconds of it; of them those in which the driver was busy, in all and with its own program (the rest are its calls
    and messages), and those in which the busiest branch was; how many the driver talks to, and the bytes that came to
    it and went from it.
    """

    workers: int
    fan_out: int
    pairs: int
    seconds: float
    driver_s: float
    program_s: float
    branch_s: float
    talks_to: int
    received: int
    sent: int


# -- light evaluators


@functools.cache
def _statistics(observed: int, kind: int) -> exact_statistics.Statistics:
    seen = np.random.default_rng(kind).standard_normal((2 * EPISODE_STEPS, observed))
    delta = {"count": len(seen), "mean": seen.mean(0), "m2": seen.var(0) * len(seen)}
    return exact_statistics.exact({DEFAULT_POLICY: {"": delta}})


class LightEvaluator:
    """Plays nothing, and gives what an evaluator gives."""

    def __init__(self, observed: int) -> None:
        self._observed = observed

    def perform(self, task: Any, *values: Any) -> Outcome | None:
        if not isinstance(task, Tasks):
            return None
        population, (number,) = task.population, task.numbers
        pairs, evaluations = population.members(number)
        returns = np.random.default_rng(number).standard_normal((2, len(pairs)))
        first = task.generation * population.evaluations
        played = [Episode(first + i, i, 0.0, EPISODE_STEPS, {DEFAULT_POLICY: 0.0}) for i in evaluations]
        steps = EPISODE_STEPS * (2 * len(pairs) + len(evaluations))
        statistics = _statistics(self._observed, number % KINDS)
        found = {DEFAULT_POLICY: returns}
        return Outcome([number], np.arange(pairs.start, pairs.stop), found, steps, Metrics(played), statistics)

    def slots(self) -> int:
        return 1


# -- machines


class MachineCluster(Cluster):
    """Processes of a machine share its link; what has come to it, or is on the way, is there for all of them."""

    def __init__(self, config: SimConfig, machines: int, evaluators: int) -> None:
        super().__init__(config)
        self._links = [Place(f"machine {i}") for i in range(machines)]
        self._evaluators = evaluators
        self._link_of: dict[Place, Place] = {}
        self._coming: WeakKeyDictionary[SimRef, dict[Place, Delivery]] = WeakKeyDictionary()
        self.driver = self.programs.root.place
        self.received = self.sent = 0

    def spawn(self, build: Callable[[], Any], cpus: float) -> Any:
        handle = super().spawn(build, cpus)
        number = handle.number
        # Branches are anywhere, without regard to those below them.
        where = number // PER_MACHINE if number < self._evaluators else number * 37
        self._link_of[handle.actor.place] = self._links[where % len(self._links)]
        return handle

    def transfer(self, source: Place, target: Place, size: int) -> float:
        self.received += size if target is self.driver else 0
        self.sent += size if source is self.driver else 0
        return super().transfer(self._link_of.get(source, source), self._link_of.get(target, target), size)

    def bring(self, refs: Sequence[SimRef], place: Place) -> Delivery:
        link = self._link_of.get(place, place)
        whole = Delivery(link, self.timeline.now)
        for ref in refs:
            coming = self._coming.setdefault(ref, {})
            if link not in coming:
                coming[link] = super().bring([ref], link)
            whole.moving += coming[link].moving
            whole.complete_at = max(whole.complete_at, coming[link].complete_at)
        return whole


# -- who is timed


class MessageTimes:
    """Seconds in which values are packed and unpacked, by kind and number of their parts; one in a few is timed."""

    def __init__(self) -> None:
        self._known: dict[Any, list[float]] = {}
        self._counts: dict[Any, int] = {}

    def packing_s(self, values: Sequence[Any]) -> float:
        return sum(self._of("packing", value, lambda own: _packed(own)[0]) for value in values)

    def unpacking_s(self, values: Sequence[Any]) -> float:
        return sum(self._of("unpacking", value, _unpacking_s) for value in values)

    def _of(self, what: str, value: Any, measure: Callable[[Any], float]) -> float:
        kind = what, type(value), len(value) if isinstance(value, list | dict) else 0
        count = self._counts[kind] = self._counts.get(kind, -1) + 1
        known = self._known.setdefault(kind, [])
        if type(value).__name__ in ("Report", "dict", "ndarray"):
            # Of these there are few, of many sizes.
            return measure(value)
        if count % TIMED == 0:
            known.append(measure(value))
        return float(np.median(known))


def _packed(value: Any) -> tuple[float, Any]:
    """As it is packed for Ray."""
    began = time.thread_time()
    sent = crossing(value)
    packed = sent.__reduce_ex__(5)[1] if hasattr(sent, "_value") else (pickle.dumps(sent), [])
    stored = packed[0], [bytes(one) for one in packed[1]]
    return time.thread_time() - began, stored


def _unpacking_s(value: Any) -> float:
    _, (stream, buffers) = _packed(value)
    began = time.thread_time()
    pickle.loads(stream, buffers=buffers)
    return time.thread_time() - began


class WithMessages(TimedCalls):
    """Whoever drives is busy with packing and unpacking too."""

    messages: MessageTimes

    def submit(self, handle: Any, method: str, args: Sequence[Any], returns: int) -> Any:
        self._pack([arg for arg in args if not isinstance(arg, SimRef)])
        return super().submit(handle, method, args, returns)

    def put(self, value: Any) -> Any:
        self._pack([value])
        return super().put(value)

    def get(self, refs: Any) -> Any:
        found = super().get(refs)
        values = found if isinstance(refs, list) else [found]
        self.charge(self.uncounted(lambda: self.messages.unpacking_s(values)))
        return found

    def _pack(self, values: Sequence[Any]) -> None:
        self.charge(self.uncounted(lambda: self.messages.packing_s(values)))

    def charge(self, seconds: float) -> None:
        """Something that belongs to calls."""
        self._call(seconds, lambda: None)


class Driver(WithMessages, TimedDriver):
    """The driver, on a machine of its own."""

    def __init__(self, config: SimConfig, costs: CallCosts, workers: int) -> None:
        self._begin(MachineCluster(config, -(-workers // PER_MACHINE), workers))
        self.time_with(costs)
        self.messages = MessageTimes()

    def child(self) -> Any:
        return ChildRuntime(self._cluster)


class BranchRuntime(WithMessages, ChildRuntime):
    """A branch's."""


@functools.cache
def _times_of_branches() -> MessageTimes:
    """All branches have the same kinds of messages."""
    return MessageTimes()


class TimedBranch(Branch):
    """The real one; ``calls`` are the costs of what it calls."""

    def __init__(self, calls: CallCosts, runtime: Any, timeout_s: float) -> None:
        own = BranchRuntime(runtime._cluster)
        own.time_with(calls)
        own.messages = _times_of_branches()
        super().__init__(own, timeout_s)
        self.timed = own

    def _timed_handles(self, handles: Any) -> dict[int, Any]:
        return {place: TimedHandle(self.timed, handle) for place, handle in handles.items()}

    def hold(self, evaluators: Any) -> None:
        super().hold(self._timed_handles(evaluators))

    def hold_branches(self, branches: Any, sizes: Any) -> None:
        super().hold_branches(self._timed_handles(branches), sizes)

    def explore(self, *args: Any) -> Any:
        return self._busy(lambda: Branch.explore(self, *args))

    def add_up(self, *args: Any) -> Any:
        return self._busy(lambda: Branch.add_up(self, *args))

    def _busy(self, do: Callable[[], Any]) -> Any:
        # Each call has a thread of its own, whose time begins anew.
        self.timed.watch.go_on()
        result = do()
        self.timed._pack([result])
        return result


# -- one cluster


def simulate(costs: EsCosts, workers: int, fan_out: int, pairs: int) -> Load:
    """One generation; before it everybody has started, and has the table of noise."""
    config = SimConfig(
        costs={"perform": Cost(seconds=costs.task_s + costs.calls.worker_s, spread=SPREAD)},
        call=Cost(seconds=costs.calls.worker_s),
        latency=Cost(seconds=LATENCY_S),
        bytes_per_s=BYTES_PER_S,
    )
    runtime = Driver(config, costs.calls, workers)
    with patch.object(rlcore_es.tree, "Branch", functools.partial(TimedBranch, costs.calls)):
        optimizer, evaluators = _parts(runtime, costs, workers, fan_out, pairs)
    evaluators.slots()
    crew = getattr(optimizer._exploration, "_branches", None)
    branches = [] if crew is None else [handle.inner.worker.timed.watch for handle in crew.handles]
    cluster: Any = runtime._cluster
    watch = runtime.watch
    before = (runtime.now(), watch.program_s, watch.calls_s, cluster.received, cluster.sent)
    busy = [own.program_s + own.calls_s for own in branches]
    # The simulation's own objects would be collected in the driver's time.
    gc.disable()
    optimizer.step()
    # The update's own work is still to be counted.
    runtime.work(0.0)
    gc.enable()
    after = (runtime.now(), watch.program_s, watch.calls_s, cluster.received, cluster.sent)
    seconds, program_s, calls_s, received, sent = (end - begin for begin, end in zip(before, after, strict=True))
    branch_s = [own.program_s + own.calls_s - begin for own, begin in zip(branches, busy, strict=True)]
    talks_to = workers if crew is None else len(optimizer._exploration._shape.top)
    runtime.close()
    return Load(
        workers,
        fan_out,
        pairs,
        seconds,
        program_s + calls_s,
        program_s,
        max(branch_s, default=0.0),
        talks_to,
        int(received),
        int(sent),
    )


def _parts(runtime: Driver, costs: EsCosts, workers: int, fan_out: int, pairs: int) -> tuple[ES, EvaluatorSet]:
    from rlcore_torch import PolicyGradient

    spaces = Box(-np.inf, np.inf, (costs.observed,), np.float32), Box(-0.4, 0.4, (costs.actions,), np.float32)
    local = PolicyEvaluator(
        env=functools.partial(Drawn, *spaces),
        graph=PolicyGradient,
        config={"model": {"hidden": list(HIDDEN)}},
        num_envs=1,
        collect=Fragment(1),
        rng=0,
        observation_filter=MeanStd,
    )
    builders = [functools.partial(LightEvaluator, costs.observed)] * workers
    # They have ahead of them what they are given at first.
    evaluators: Any = EvaluatorSet(runtime, local, builders, timeout_s=1e6)
    settings = ESConfig(
        pairs=pairs,
        task_pairs=1,
        noise_std=0.02,
        learning_rate=0.01,
        l2=0.005,
        evaluations=max(1, pairs // 160),
        fan_out=fan_out or workers + 1,
    )
    return ES(local, evaluators, runtime, settings, (DEFAULT_POLICY,)), evaluators
