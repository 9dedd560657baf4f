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
from collections.abc import Sequence
from typing import Any

import numpy as np
import ray_workers
from ray_calls import CallCosts, measure_calls, processor_s, processor_s_and_result

from rlcore.batch import MultiAgentBatch, SampleBatch
from rlcore.packing import pack, unpack
from rlcore.runtime.inline import InlineRuntime
from rlcore.runtime.snapshot import sized_snapshot
from rlcore_apex.learner import ApexLearner
from rlcore_apex.replay_actor import Drawn, ReplayActor
from rlcore_replay import PrioritizedConfig

STEPS, MINIBATCH = 50, 512
#: Transitions in a replay actor while it is measured: as many as memory allows. The tree above them is one level lower
#: than that of a share of two million.
STORED = 20_000
SAMPLES = 12


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
    return ApexCosts(one, eight, _learning(maker, replay), measure_calls())


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
        adds.append(processor_s(lambda packed=packed: replay.add(MultiAgentBatch({"default": unpack(packed)}, 0))))
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
        took, (drawn, packed) = processor_s_and_result(draw)
        draws.append(took)
        sizes.append(sized_snapshot(packed)[1])
        took, (_, new) = processor_s_and_result(lambda d=drawn, p=packed: learner.learn(d, unpack(p), 0))
        learns.append(took)
        takes.append(processor_s(lambda new=new: replay.take(new)))
    # The first update also makes the optimizer's moments.
    draw_s, take_s, learn_s = (statistics.median(times[1:]) for times in (draws, takes, learns))
    weights, state = (sized_snapshot(one)[1] for one in (learner.acting_weights()[1], learner.get_state()))
    return LearningCosts(draw_s, take_s, learn_s, _median(sizes), weights, state)


def _median(sizes: Sequence[int]) -> int:
    return int(statistics.median(sizes))


if __name__ == "__main__":
    print(measure())
