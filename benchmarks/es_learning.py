"""How long the recipe ``es`` learns on two cores, start-up aside: two evaluators on Ray, and what comes of it.

    python benchmarks/es_learning.py [--seeds N] [--env ENV ...]

Time is counted from when all evaluators are there until the mean return of the last hundred episodes of the policy as
it is reaches the goal. Prints a JSON line for each run, with the mean return of a hundred episodes afterwards.

Goals: ``batched:cartpole`` in at most 5 s, ``CartPole-v1`` in at most 30 s.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from rlcore.trainer import Trainer

#: The mean return to reach, and the goal in seconds.
GOALS = {"batched:cartpole": (475.0, 5.0), "CartPole-v1": (475.0, 30.0)}
#: Where a run is given up.
ENV_STEPS = 5_000_000


def learn(env: str, seed: int) -> dict[str, Any]:
    """One run."""
    goal, seconds = GOALS[env]
    config = {"algorithm": "es", "framework": "torch", "env": env, "seed": seed, "runtime": "ray"}
    with Trainer({**config, "evaluators": {"count": 2}}) as trainer:
        optimizer: Any = trainer.optimizers[0]
        # They answer once they are there.
        optimizer.evaluators.metrics()
        started, found = time.perf_counter(), trainer.step()
        while found["env_steps"] < ENV_STEPS and not reached(found, goal):
            found = trainer.step()
        spent = time.perf_counter() - started
        evaluated = trainer.evaluate(100).episode_return_mean
    row = {"task": "es_learning", "env": env, "seed": seed, "seconds": round(spent, 1), "goal_s": seconds}
    return {**row, "env_steps": found["env_steps"], "evaluation": round(evaluated, 1), "reached": reached(found, goal)}


def reached(row: dict[str, Any], goal: float) -> bool:
    return row["episodes"] >= 100 and bool(row["episode_return_mean"] >= goal)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="from 0 on (default: %(default)s)")
    parser.add_argument("--env", choices=GOALS, nargs="+", default=list(GOALS))
    options = parser.parse_args()
    for env in options.env:
        for seed in range(options.seeds):
            print(json.dumps(learn(env, seed)), flush=True)


if __name__ == "__main__":
    main()
