"""What Ray adds to a step of PPO that takes two seconds: the same work in one process, and with an evaluator on Ray.

    python benchmarks/ray_step.py

Both have one evaluator of 64 CartPoles, the same samples, epochs and minibatches; neither samples while it learns, so
that nothing of what Ray costs is hidden. How long the samples are is chosen here so that a step takes about as long as
is asked for. Contestants take turns; given are medians of what a step takes by the clock, and of the processor time of
all processes of either, Ray's own among them, which is what can be compared where a machine has other work.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from remote_sampling import ALL, processor_time

from rlcore import Trainer

#: Environment steps of the sample that is timed to choose the length of the others.
TRIAL = 64


def trainer(runtime: Any, count: int, fragment: int) -> Trainer:
    return Trainer(
        {
            "algorithm": "ppo",
            "env": "CartPole-v1",
            "evaluators": {"count": count, "envs": 64, "fragment": fragment},
            "optimizer": {"name": "multi_gpu", "epochs": 4, "minibatch_size": 512},
            "runtime": runtime,
            "seed": 1,
        }
    )


def length(seconds: float) -> int:
    """Of a fragment with which a step takes so long."""
    with trainer("inline", 0, TRIAL) as own:
        own.step()
        # What else runs here must not make steps shorter.
        started = time.process_time()
        own.step()
        return max(1, round(TRIAL * seconds / (time.process_time() - started)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="of a step (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=9, help="(default: %(default)s)")
    options = parser.parse_args()
    fragment = length(options.seconds)
    spent: dict[str, list[tuple[float, float]]] = {"inline": [], "ray": []}
    with trainer("inline", 0, fragment) as inline, trainer({"name": "ray", "cpus": 1}, 1, fragment) as ray:
        for own in (inline, ray):
            own.step()
        for _ in range(options.turns):
            for name, own in (("inline", inline), ("ray", ray)):
                processor, started = processor_time()[ALL], time.perf_counter()
                row = own.step()
                took = time.perf_counter() - started
                spent[name].append((took, processor_time()[ALL] - processor))
    print(f"a step of {row['env_steps'] // row['iteration']:,} environment steps:")
    for i, clock in enumerate(("by the clock", "processor time")):
        one, other = ([turn[i] for turn in turns] for turns in spent.values())
        added = statistics.median(b / a for a, b in zip(one, other, strict=True)) - 1.0
        print(
            f"  {clock:<16}inline {statistics.median(one):6.3f} s (least {min(one):6.3f})   "
            f"Ray {statistics.median(other):6.3f} s (least {min(other):6.3f})   "
            f"adds {added:+.1%} (least {min(other) / min(one) - 1.0:+.1%})"
        )


if __name__ == "__main__":
    main()
