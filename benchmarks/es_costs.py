"""What evaluating a pair of members costs on this machine: Humanoid, as in the papers on ES, with the policy's network.

Seconds are of processor time of one thread, so that other work on the machine counts little.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any

from ray_calls import CallCosts, measure_calls, processor_s

from rlcore import Trainer
from rlcore.batch import DEFAULT_POLICY

ENV, HIDDEN, TIMES = "Humanoid-v5", (256, 256), 5


@dataclasses.dataclass(frozen=True)
class EsCosts:
    """A task: a pair whose episodes have 1000 steps each; and the sizes of observations and actions."""

    task_s: float
    observed: int
    actions: int
    parameters: int
    calls: CallCosts


def measure(calls: CallCosts | None = None) -> EsCosts:
    """Takes a minute; ``calls`` are the costs of calls, where they are known."""
    config = {
        "algorithm": "es",
        "framework": "torch",
        "env": ENV,
        # Whoever falls goes on: all episodes are as long as those of a policy that walks.
        "env_settings": {"terminate_when_unhealthy": False},
        "model": {"hidden": list(HIDDEN)},
        "filter": "mean_std",
        "evaluators": {"envs": 1},
        "optimizer": {"pairs": TIMES + 1, "task_pairs": 1, "evaluations": 1, "noise_std": 0.02},
        "runtime": "inline",
    }
    with Trainer(config) as trainer:
        optimizer: Any = trainer.optimizers[0]
        local: Any = trainer.evaluators.local
        trainer.step()
        update = trainer.evaluators.publish(optimizer.runtime.put(trainer.weights()), optimizer._ledger.progress)
        sent = optimizer.runtime.get(list(update))
        population = optimizer._population
        # The last task has the evaluation of the policy as it is.
        times = [processor_s(lambda i=i: local.perform(population.order(1, i), *sent)) for i in range(TIMES)]
        spaces: Sequence[Any] = next(iter(local.env.groups.values()))
        observed, actions = (int(space.shape[0]) for space in spaces[:2])
        size = population.layouts[DEFAULT_POLICY].size
    return EsCosts(statistics.median(times), observed, actions, size, calls or measure_calls())


if __name__ == "__main__":
    print(measure())
