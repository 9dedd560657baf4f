"""One update of PPO, 256 rows and two 64x64 tanh networks: rlcore-torch beside a plain loop of torch.

Both do the same from the same samples: select the rows, normalise advantages, clipped surrogate, value loss, entropy,
clip the gradients, Adam. They take turns, with one thread, and are measured by CPU time; prints a JSON line for each.

    python benchmarks/updates.py [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import gymnasium
import numpy as np
import plain_torch
import torch
from recipe import RECIPE
from torch import nn

from rlcore.batch import SampleBatch
from rlcore_torch import PPO, capture

ROWS = RECIPE.num_envs * RECIPE.horizon
UPDATES = RECIPE.epochs * ROWS // RECIPE.minibatch
Update = Callable[[np.ndarray], object]


def samples(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal((4, ROWS)).astype(np.float32)
    return {
        "obs": rng.standard_normal((ROWS, 4)).astype(np.float32),
        "actions": rng.integers(2, size=ROWS),
        "action_logp": 0.05 * normal[0] - np.log(np.float32(2.0)),
        "advantages": normal[1],
        "value_targets": normal[2],
    }


def ours(rows: dict[str, np.ndarray], recorded: bool) -> Update:
    """``PPO.learn``; without ``recorded`` autograd does every backward pass."""
    config = PPO.Config(
        learning_rate=RECIPE.learning_rate,
        clip=RECIPE.clip,
        entropy_coeff=RECIPE.entropy,
        vf_loss_coeff=RECIPE.value / 2,  # of the squared error, of which the plain loop takes the half
        max_grad_norm=RECIPE.max_grad_norm,
    )
    spaces = gymnasium.spaces.Box(-1.0, 1.0, (4,)), gymnasium.spaces.Discrete(2)
    graph = PPO(*spaces, config, rng=np.random.default_rng(0))
    if not recorded:
        graph._backward_pass.differentiate = lambda *given: capture.differentiate(graph._totals, *given)
    pinned = graph.pin(SampleBatch(rows, {"start": np.array([0]), "length": np.array([ROWS])}))
    return lambda units: graph.learn(pinned, units)


def plain(rows: dict[str, np.ndarray]) -> Update:
    """The update of ``plain_torch.py``."""
    policy, value = plain_torch.network(4, 2, 0.01), plain_torch.network(4, 1, 1.0)
    parameters = [*policy.parameters(), *value.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=RECIPE.learning_rate, eps=1e-5)
    columns = [torch.tensor(rows[name]) for name in ("obs", "actions", "action_logp", "advantages", "value_targets")]

    def update(units: np.ndarray) -> None:
        index = torch.from_numpy(units)
        optimizer.zero_grad()
        plain_torch.loss(policy, value, *(column[index] for column in columns)).backward()
        nn.utils.clip_grad_norm_(parameters, RECIPE.max_grad_norm)
        optimizer.step()

    return update


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60, help="turns of each (default: %(default)s)")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    rows = samples(0)
    contestants = {
        "plain torch": plain(rows),
        "rlcore-torch by autograd": ours(rows, recorded=False),
        "rlcore-torch": ours(rows, recorded=True),
    }
    rng = np.random.default_rng(0)
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, update in contestants.items():
            minibatches = rng.integers(ROWS, size=(UPDATES, RECIPE.minibatch))
            started = time.thread_time()
            for units in minibatches:
                update(units)
            taken[name].append(1e3 * (time.thread_time() - started) / UPDATES)
    for name, times in taken.items():
        ratio = statistics.median(taken["plain torch"]) / statistics.median(times)
        row = {"task": "update", "name": name, "ms": round(statistics.median(times), 3), "min_ms": round(min(times), 3)}
        print(json.dumps({**row, "plain_over_it": round(ratio, 2)}))


if __name__ == "__main__":
    main()
