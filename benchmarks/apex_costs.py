"""What the parts of Ape-X cost on this machine: evaluators, replay, the learner, and the driver's calls of Ray.

Pong as Atari is played: four stacked frames of 84x84, the networks of Mnih et al. 2015, double and dueling, returns of
three steps, batches compressed where they leave a process. All seconds are of processor time, so that other work on the
machine counts little; those of the driver are of its one thread.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import ray_workers

from rlcore.batch import MultiAgentBatch, SampleBatch
from rlcore.packing import pack, unpack
from rlcore.runtime.inline import InlineRuntime
from rlcore.runtime.ray import RayConfig, RayRuntime
from rlcore.runtime.snapshot import sized_snapshot
from rlcore_apex.learner_actor import ApexLearner
from rlcore_apex.replay_actor import Drawn, ReplayActor
from rlcore_replay import PrioritizedConfig

STEPS, MINIBATCH = 50, 512
#: Transitions in a replay actor while it is measured: as many as memory allows. The tree above them is one level lower
#: than that of a share of two million.
STORED = 20_000
SAMPLES, CALLS, TURNS = 12, 300, 20
#: References that are waited for at once.
FEW, MANY = 8, 256


@dataclasses.dataclass(frozen=True)
class SampleCosts:
    """One sample: its seconds, packed, how they vary (deviation of the logarithm), its steps, and its packed bytes;
    and the seconds in which a replay actor unpacks and stores it."""

    seconds: float
    spread: float
    env_steps: int
    bytes: int
    add_s: float


@dataclasses.dataclass(frozen=True)
class LearningCosts:
    """Of minibatches of ``MINIBATCH`` rows. Drawing includes packing, learning includes unpacking."""

    draw_s: float
    take_s: float
    learn_s: float
    minibatch_bytes: int
    weights_bytes: int
    state_bytes: int


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


@dataclasses.dataclass(frozen=True)
class ApexCosts:
    """All of it: samples of evaluators with one environment, and with eight."""

    one: SampleCosts
    eight: SampleCosts
    learning: LearningCosts
    calls: CallCosts


def measure() -> ApexCosts:
    """Takes a few minutes."""
    maker = _maker(8)
    replay = ReplayActor(("default",), STORED, PrioritizedConfig(), np.random.SeedSequence(0))
    eight = _sampling(maker, replay, STORED // (8 * STEPS))
    one = _sampling(_maker(1), replay, SAMPLES)
    return ApexCosts(one, eight, _learning(maker, replay), _calls())


def _maker(envs: int) -> Any:
    settings = {"atari": True, "frame_stack": 4}
    evaluators = {"envs": envs, "fragment": STEPS}
    run = {"algorithm": "apex_dqn", "framework": "torch", "env": "ALE/Pong-v5", "env_settings": settings}
    return ray_workers.makers({**run, "evaluators": evaluators})


def _sampling(maker: Any, replay: ReplayActor, count: int) -> SampleCosts:
    evaluator, samples, adds, sizes, env_steps = maker.sampler(0), [], [], [], 0
    # The first begins episodes, and its last rows wait for what follows on them.
    evaluator.sample_counted()
    for _ in range(count):
        began = time.process_time()
        info, batch = evaluator.sample_counted()
        packed = pack(batch["default"])
        samples.append(time.process_time() - began)
        env_steps = info.env_steps
        sizes.append(sized_snapshot(packed)[1])
        adds.append(_processor_s(lambda packed=packed: replay.add(MultiAgentBatch({"default": unpack(packed)}, 0))))
    evaluator.close()
    spread = statistics.pstdev([math.log(one) for one in samples])
    return SampleCosts(statistics.median(samples), spread, env_steps, _median(sizes), statistics.median(adds))


def _learning(maker: Any, replay: ReplayActor) -> LearningCosts:
    learner = ApexLearner(maker.specs, ("cpu",), InlineRuntime())
    draws, takes, learns, sizes = [], [], [], []

    def draw() -> tuple[Drawn, SampleBatch]:
        drawn, rows = replay.draw("default", MINIBATCH, 0.4)
        return drawn, pack(rows)

    for _ in range(5):
        took, (drawn, packed) = _processor_s_and_result(draw)
        draws.append(took)
        sizes.append(sized_snapshot(packed)[1])
        took, (_, new) = _processor_s_and_result(lambda d=drawn, p=packed: learner.learn(d, unpack(p), 0))
        learns.append(took)
        takes.append(_processor_s(lambda new=new: replay.take(new)))
    # The first update also makes the optimizer's moments.
    draw_s, take_s, learn_s = (statistics.median(times[1:]) for times in (draws, takes, learns))
    weights, state = (sized_snapshot(one)[1] for one in (learner.acting_weights()[1], learner.get_state()))
    return LearningCosts(draw_s, take_s, learn_s, _median(sizes), weights, state)


# -- the driver's calls


class _Worker(ray_workers.Echo):
    def two(self, value: Any) -> tuple[int, int]:
        """Something small, twice."""
        return 1, 2

    def doze(self, seconds: float) -> int:
        """Answers later."""
        time.sleep(seconds)
        return 1


def _calls() -> CallCosts:
    runtime = RayRuntime(RayConfig(cpus=2))
    try:
        worker = runtime.spawn(_Worker)
        value = runtime.put(0)
        runtime.get(worker.submit("take"))
        submit, get = [], {FEW: [], MANY: []}
        began = runtime.get(worker.submit("processor_s"))
        for _ in range(TURNS):
            for count, times in get.items():
                took, refs = _thread_s(lambda n=count: [worker.submit("two", value, returns=2)[0] for _ in range(n)])
                submit.append(took / count)
                runtime.wait(refs, len(refs))
                times.append(_thread_s(lambda refs=refs: runtime.get(refs))[0])
        calls = TURNS * (FEW + MANY)
        worker_s = (runtime.get(worker.submit("processor_s")) - began) / calls
        put_s = statistics.median(_thread_s(lambda: runtime.put({"a": 1}))[0] for _ in range(CALLS))
        get_s, get_ref_s = _line(*(statistics.median(times) for times in get.values()))
        wait_s, wait_ref_s = _line(*(_wait_s(runtime, worker, count) for count in (FEW, MANY)))
        return CallCosts(statistics.median(submit), put_s, get_s, get_ref_s, wait_s, wait_ref_s, worker_s)
    finally:
        runtime.close()


def _wait_s(runtime: RayRuntime, worker: Any, count: int) -> float:
    """Of a wait for so many that are not ready, and which does not wait for them."""
    last = worker.submit("doze", 2.0)
    refs = [worker.submit("two", 0, returns=2)[0] for _ in range(count)]
    took = statistics.median(_thread_s(lambda: runtime.wait(refs, len(refs), 0.0))[0] for _ in range(TURNS))
    runtime.get([last, *refs])
    return took


def _line(few: float, many: float) -> tuple[float, float]:
    """What nothing costs, and each, where FEW and MANY cost so much."""
    each = max(0.0, (many - few) / (MANY - FEW))
    return max(0.0, few - FEW * each), each


# -- time


def _processor_s(do: Callable[[], Any]) -> float:
    return _processor_s_and_result(do)[0]


def _processor_s_and_result(do: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    result = do()
    return time.process_time() - began, result


def _thread_s(do: Callable[[], Any]) -> tuple[float, Any]:
    began = time.thread_time()
    result = do()
    return time.thread_time() - began, result


def _median(sizes: Sequence[int]) -> int:
    return int(statistics.median(sizes))


if __name__ == "__main__":
    print(measure())
