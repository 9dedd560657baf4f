"""What the driver's calls of Ray cost on this machine, and time as programs take it from their processor."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import ray_workers

from rlcore.runtime.ray import RayConfig, RayRuntime

CALLS, TURNS = 300, 20
#: References that are waited for at once.
FEW, MANY = 8, 256
#: Bytes of a large value, and how often it is stored.
LARGE, STORES = 40_000_000, 12


@dataclasses.dataclass(frozen=True)
class CallCosts:
    """What calls cost the driver's thread, and what a call costs the worker beside what it does.

    A wait costs ``wait_s`` and ``wait_ref_s`` for each reference, a get likewise.
    """

    submit_s: float
    put_s: float
    get_s: float
    get_ref_s: float
    wait_s: float
    wait_ref_s: float
    worker_s: float


class _Worker(ray_workers.Echo):
    def two(self, value: Any) -> tuple[int, int]:
        """Something small, twice."""
        return 1, 2

    def doze(self, seconds: float) -> int:
        """Answers later: a worker that is at work and uses no processor."""
        time.sleep(seconds)
        return 1


def measure_calls() -> CallCosts:
    """Takes a minute."""
    runtime = RayRuntime(RayConfig(cpus=2))
    try:
        worker = runtime.spawn(_Worker)
        value = runtime.put(0)
        runtime.get(worker.submit("take"))
        submit, get = [], {FEW: [], MANY: []}
        began = runtime.get(worker.submit("processor_s"))
        for _ in range(TURNS):
            for count, times in get.items():
                took, refs = thread_s(lambda n=count: [worker.submit("two", value, returns=2)[0] for _ in range(n)])
                submit.append(took / count)
                runtime.wait(refs, len(refs))
                times.append(thread_s(lambda refs=refs: runtime.get(refs))[0])
        calls = TURNS * (FEW + MANY)
        worker_s = (runtime.get(worker.submit("processor_s")) - began) / calls
        put_s = statistics.median(thread_s(lambda: runtime.put({"a": 1}))[0] for _ in range(CALLS))
        get_s, get_ref_s = _line(*(statistics.median(times) for times in get.values()))
        wait_s, wait_ref_s = _line(*(_wait_s(runtime, worker, count) for count in (FEW, MANY)))
        return CallCosts(statistics.median(submit), put_s, get_s, get_ref_s, wait_s, wait_ref_s, worker_s)
    finally:
        runtime.close()


def _wait_s(runtime: RayRuntime, worker: Any, count: int) -> float:
    """Of a wait for so many that are not ready, and which does not wait for them."""
    last = worker.submit("doze", 2.0)
    refs = [worker.submit("two", 0, returns=2)[0] for _ in range(count)]
    took = statistics.median(thread_s(lambda: runtime.wait(refs, len(refs), 0.0))[0] for _ in range(TURNS))
    runtime.get([last, *refs])
    return took


def _line(few: float, many: float) -> tuple[float, float]:
    """What nothing costs, and each, where FEW and MANY cost so much."""
    each = max(0.0, (many - few) / (MANY - FEW))
    return max(0.0, few - FEW * each), each


def store_byte_s() -> float:
    """Seconds of processor time in which a byte is copied into the memory that processes share."""
    runtime = RayRuntime(RayConfig(cpus=1))
    try:
        value = np.zeros(LARGE, np.uint8)
        return statistics.median(processor_s(lambda: runtime.put(value)) for _ in range(STORES)) / LARGE
    finally:
        runtime.close()


# -- time


def processor_s(do: Callable[[], Any]) -> float:
    """Of the process."""
    return processor_s_and_result(do)[0]


def processor_s_and_result(do: Callable[[], Any]) -> tuple[float, Any]:
    """The same, and what came of it."""
    began = time.process_time()
    result = do()
    return time.process_time() - began, result


def thread_s(do: Callable[[], Any]) -> tuple[float, Any]:
    """Of the thread, and what came of it."""
    began = time.thread_time()
    result = do()
    return time.thread_time() - began, result
