"""How fast a synchronous optimizer would learn with so many evaluators, given what things cost on one of them.

Light workers stand for evaluators: their calls take the time, and their values have the size, that is stated.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from rlcore.runtime.sim.calls import Bulk
from rlcore.runtime.sim.config import Cost, SimConfig
from rlcore.runtime.sim.runtime import SimRuntime

#: Rounds that are simulated, after one in which workers start.
ROUNDS = 20


@dataclass(frozen=True)
class MeasuredCosts:
    """What one evaluator and one learner cost. Seconds and bytes are medians."""

    #: One sample of one evaluator: how long it takes, how it varies (deviation of the logarithm), and what it holds.
    sample_s: float
    sample_spread: float
    sample_env_steps: int
    sample_bytes: int
    #: All epochs of learning, for each environment step.
    learn_s_per_env_step: float
    weights_bytes: int
    #: Of a small message: on its way, and how long it keeps sender and receiver from the next one.
    latency_s: float
    message_s: float
    bytes_per_s: float


@dataclass(frozen=True)
class Prediction:
    """Of one round, on average: seconds until all samples are there, and of learning; and the rate that this gives."""

    env_steps_per_s: float
    sample_s: float
    learn_s: float


class _Evaluator:
    """Gives samples of a size."""

    def __init__(self, size: int) -> None:
        self._size = size

    def sample(self) -> tuple[None, Bulk]:
        return None, Bulk(self._size)

    def receive(self, weights: Bulk) -> None:
        """Takes weights."""


class _Learner:
    def learn(self) -> None:
        """Takes its time."""


def predict(costs: MeasuredCosts, evaluators: int, *, rounds: int = ROUNDS, seed: int = 0) -> Prediction:
    """What ``multi_gpu`` does: samples of all come to the driver, which learns and broadcasts the weights.

    Each evaluator has a CPU of its own. What the driver learns per round grows with the number of evaluators.
    """
    learn_s = costs.learn_s_per_env_step * costs.sample_env_steps * evaluators
    config = SimConfig(
        seed=seed,
        costs={"sample": Cost(seconds=costs.sample_s, spread=costs.sample_spread), "learn": Cost(seconds=learn_s)},
        call=Cost(seconds=0.0),
        latency=Cost(seconds=costs.latency_s),
        message_s=costs.message_s,
        bytes_per_s=costs.bytes_per_s,
    )
    runtime = SimRuntime(config)
    workers = [runtime.spawn(functools.partial(_Evaluator, costs.sample_bytes)) for _ in range(evaluators)]
    learner = runtime.local(_Learner())
    sampling = learning = began = 0.0
    for number in range(rounds + 1):
        if number == 1:
            sampling = learning = 0.0
            began = runtime.now()
        started = runtime.now()
        samples = [worker.submit("sample", returns=2) for worker in workers]
        runtime.get([info for info, _ in samples])
        runtime.get([batch for _, batch in samples])
        sampled = runtime.now()
        learner.submit("learn")
        weights = runtime.put(Bulk(costs.weights_bytes))
        for worker in workers:
            worker.submit("receive", weights)
        sampling, learning = sampling + sampled - started, learning + runtime.now() - sampled
    seconds = runtime.now() - began
    runtime.close()
    rate = rounds * evaluators * costs.sample_env_steps / seconds
    return Prediction(rate, sampling / rounds, learning / rounds)
