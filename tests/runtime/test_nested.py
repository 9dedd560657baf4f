"""Three levels: a driver, the trainers that it spawns, and the evaluators that these spawn through a child runtime."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from rlcore.errors import EnvError
from rlcore.evaluator_set import EvaluatorSet
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_optimizer import PolicyOptimizer
from rlcore.runtime.base import Runtime
from rlcore.runtime.inline import InlineRuntime
from rlcore.sampling.collect import Fragment
from rlcore.testing import LinearPG
from rlcore.testing.environments import CountEnv

rlcore_sync = pytest.importorskip("rlcore_sync")
pytest.importorskip("rlcore_gym")


def evaluator(index: int, seed: int, env: Any) -> PolicyEvaluator:
    return PolicyEvaluator(
        env=env,
        graph=LinearPG,
        config={"learning_rate": 0.05},
        num_envs=2,
        collect=Fragment(16),
        rng=np.random.SeedSequence(seed, spawn_key=(index,)),
        index=index,
    )


class Training:
    """A trainer: an optimizer with an evaluator of its own, which is a worker of the worker that this is."""

    def __init__(self, runtime: Runtime, optimizer: str, seed: int, env: Any = "CartPole-v1") -> None:
        kind: type[PolicyOptimizer] = {"multi_gpu": rlcore_sync.MultiGPU, "allreduce": rlcore_sync.AllReduce}[optimizer]
        # All evaluators begin with the weights of this one.
        local = evaluator(0, seed, env)
        local.graph("default").set_weights({name: 0 * array for name, array in local.get_weights()["default"].items()})
        self._evaluators = EvaluatorSet(runtime, local, [functools.partial(evaluator, 1, seed, env)])
        self._optimizer = kind(local, self._evaluators, runtime, kind.Config(), ("default",))
        self._evaluators.broadcast(self._optimizer.get_weights(), {})

    def train(self, steps: int) -> int:
        """Environment steps."""
        return sum(self._optimizer.step().env_steps for _ in range(steps))

    def weights(self) -> dict[str, Any]:
        return self._optimizer.get_weights()["default"]


class Fragile(CountEnv):
    def __init__(self) -> None:
        super().__init__(50)

    def step(self, action: Any) -> Any:
        raise ValueError("boom")


@pytest.mark.parametrize("optimizer", ["multi_gpu", "allreduce"])
def test_trainers_are_workers_with_evaluators_of_their_own(optimizer: str, runtime: Runtime) -> None:
    seeds = (1, 2)
    trainers = [runtime.spawn(functools.partial(Training, runtime.child(), optimizer, seed)) for seed in seeds]
    assert runtime.get([trainer.submit("train", 3) for trainer in trainers]) == [3 * 32] * 2
    found = runtime.get([trainer.submit("weights") for trainer in trainers])
    for seed, own in zip(seeds, found, strict=True):
        alone = Training(InlineRuntime(), optimizer, seed)
        alone.train(3)
        for name, array in alone.weights().items():
            np.testing.assert_array_equal(own[name], array)
    assert any((found[0][name] != found[1][name]).any() for name in found[0])
    for trainer in trainers:
        runtime.kill(trainer)


def test_what_an_evaluator_raises_arrives_two_levels_above(runtime: Runtime) -> None:
    trainer = runtime.spawn(functools.partial(Training, runtime.child(), "multi_gpu", 1, Fragile))
    with pytest.raises(EnvError, match="step\\(\\) raised ValueError: boom") as caught:
        runtime.get(trainer.submit("train", 1))
    assert repr(caught.value.__cause__) == "ValueError('boom')"
    runtime.kill(trainer)
