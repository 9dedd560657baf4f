"""The driver's own time for a generation of ES on Ray, by the number of evaluators, with and without a tree.

    python benchmarks/es_driver.py [--turns N]

Evaluators are light: they play nothing and answer at once with outcomes like real ones, those of Humanoid. Each has two
tasks in a generation. What is counted is the processor time of the driver's process, Ray's threads in it included, so
that other work on this machine counts little; trees and none take turns on the same evaluators.
"""

from __future__ import annotations

import argparse
import functools
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from es_cluster import LightEvaluator
from es_costs import HIDDEN
from gymnasium.spaces import Box

from rlcore.batch import DEFAULT_POLICY
from rlcore.evaluator_set import EvaluatorSet
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.runtime.base import Resources
from rlcore.runtime.ray import RayConfig, RayRuntime
from rlcore.sampling.collect import Fragment
from rlcore.sampling.filters import MeanStd
from rlcore.testing.environments import Drawn
from rlcore_es import ES, ESConfig

EVALUATORS, TASKS = (2, 4, 8, 16, 32), 2
OBSERVED, ACTIONS = 348, 17


class Pool(RayRuntime):
    """Light evaluators are started once, and given again to whoever asks for some."""

    def __init__(self, config: RayConfig) -> None:
        super().__init__(config)
        self._started: list[Any] = []
        self._given = 0

    def spawn(self, build: Callable[[], Any], resources: Resources = Resources()) -> Any:
        if getattr(build, "func", None) is not LightEvaluator:
            return super().spawn(build, resources)
        if self._given == len(self._started):
            self._started.append(super().spawn(build, Resources()))
        self._given += 1
        return self._started[self._given - 1]

    def take_back(self) -> None:
        """All of them are free."""
        self._given = 0


def optimizer(runtime: Pool, evaluators: Any, local: PolicyEvaluator, fan_out: int) -> ES:
    settings = ESConfig(pairs=TASKS * evaluators.size, task_pairs=1, noise_std=0.02, fan_out=fan_out, evaluations=1)
    return ES(local, evaluators, runtime, settings, (DEFAULT_POLICY,))


def driver_ms(one: ES) -> float:
    """Of one generation."""
    began = time.process_time()
    one.step()
    return 1e3 * (time.process_time() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=15, help="of each (default: %(default)s)")
    options = parser.parse_args()
    from rlcore_torch import PolicyGradient

    spaces = Box(-np.inf, np.inf, (OBSERVED,), np.float32), Box(-0.4, 0.4, (ACTIONS,), np.float32)
    local = PolicyEvaluator(
        env=functools.partial(Drawn, *spaces),
        graph=PolicyGradient,
        config={"model": {"hidden": list(HIDDEN)}},
        num_envs=1,
        collect=Fragment(1),
        rng=0,
        observation_filter=MeanStd,
    )
    runtime = Pool(RayConfig(cpus=2))
    try:
        print("| Evaluators | branches | no tree | tree |\n| --: | --: | --: | --: |")
        for count in EVALUATORS:
            runtime.take_back()
            evaluators = EvaluatorSet(runtime, local, [functools.partial(LightEvaluator, OBSERVED)] * count)
            # No more below each than the square root; with two evaluators there is nothing to stand between.
            fan_out = max(2, math.ceil(math.sqrt(count)))
            kinds = [optimizer(runtime, evaluators, local, one) for one in (count + 1, fan_out)]
            for _ in range(2):
                for one in kinds:
                    one.step()
            times = [[driver_ms(one) for one in kinds] for _ in range(options.turns)]
            flat, tree = (statistics.median(own) for own in zip(*times, strict=True))
            crew = getattr(kinds[1]._exploration, "_branches", None)
            shown = f"{crew.size} | {flat:.1f} ms | {tree:.1f} ms" if crew else f"0 | {flat:.1f} ms |"
            print(f"| {count} | {shown} |", flush=True)
            if crew is not None:
                for handle in crew.handles:
                    runtime.kill(handle)
    finally:
        runtime.close()


if __name__ == "__main__":
    main()
