"""Sampling an array simulator, acting included, beside a bare loop over arrays that computes the same things.

``python benchmarks/batched_sampling.py`` measures, by turns in one run on one core, steps of ``batched:pendulum`` with
a 64x64 network a second of processor time, at 1 to 4096 environments:

* ``bare``: numpy arrays in a loop. A pendulum in float32, two networks, a draw, its log-probability and the value; all
  of it written into arrays, once a step. There is nothing else: no evaluator, no episodes, no check, no return.
* ``ours``: ``PolicyEvaluator.sample()``, which is that and pieces, endings, episodes' returns, checks, advantages.

Further, what the sampler itself costs in a step of all environments: a sample's time less that of its parts, the
environment, the actor, and what is computed once a sample (values and advantages).

Prints one JSON object a line. OMP_NUM_THREADS=1 makes it one core.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rlcore
from rlcore.acting import ActorCriticActor, Architecture, ModelConfig, to_env
from rlcore.batch import ACTION_LOGP, ACTIONS, LAST_VALUE, OBS, REWARDS, TERMINATED, TRUNCATED, VF_PREDS
from rlcore.env import DEFAULT_GROUP
from rlcore.envs import build_env
from rlcore.policy_graph import ActRows
from rlcore.returns import gae
from rlcore.sampling.collect import Fragment

SIZES = (1, 8, 64, 256, 1024, 4096)
HIDDEN = (64, 64)
SECONDS, ROUNDS = 0.4, 5
Float32 = NDArray[np.float32]


def steps(num_envs: int) -> int:
    """How long a fragment is: at most 131,072 rows."""
    return min(128, 131072 // num_envs)


class BareNetwork:
    """Two tanh layers and an output, in numpy."""

    def __init__(self, rng: np.random.Generator) -> None:
        sizes = itertools.pairwise((3, *HIDDEN, 1))
        self.layers = [(rng.normal(0, i**-0.5, (i, o)).astype(np.float32), np.zeros(o, np.float32)) for i, o in sizes]

    def __call__(self, x: Float32) -> Float32:
        for weight, bias in self.layers[:-1]:
            x = x @ weight
            x += bias
            np.tanh(x, out=x)
        weight, bias = self.layers[-1]
        return np.asarray(x @ weight + bias)[:, 0]


class BarePendulum:
    """Pendulums in float32; all of one age."""

    def __init__(self, n: int, rng: np.random.Generator) -> None:
        self.rng, self.t = rng, 0
        self.obs = np.empty((n, 3), np.float32)
        self.reset()

    def reset(self) -> None:
        n = len(self.obs)
        self.angle = self.rng.uniform(-math.pi, math.pi, n).astype(np.float32)
        self.turning = self.rng.uniform(-1, 1, n).astype(np.float32)
        self.observe()

    def observe(self) -> None:
        self.obs[:, 0], self.obs[:, 1], self.obs[:, 2] = np.cos(self.angle), np.sin(self.angle), self.turning

    def step(self, torque: Float32) -> tuple[Float32, bool]:
        torque = np.clip(torque, -2, 2)
        upright = np.mod(self.angle + np.float32(math.pi), np.float32(2 * math.pi)) - np.float32(math.pi)
        reward = -(upright * upright + 0.1 * self.turning * self.turning + 0.001 * torque * torque)
        turning = self.turning + (15 * np.sin(self.angle) + 3 * torque) * np.float32(0.05)
        self.turning = np.clip(turning, -8, 8)
        self.angle = self.angle + self.turning * np.float32(0.05)
        self.t += 1
        over = self.t % 200 == 0
        if over:
            self.reset()
        else:
            self.observe()
        return reward, over


def bare(num_envs: int, seed: int) -> Iterator[int]:
    """The loop that anybody would write who needs nothing but these arrays."""
    rng, length = np.random.default_rng(seed), steps(num_envs)
    policy, value, env = BareNetwork(rng), BareNetwork(rng), BarePendulum(num_envs, rng)
    log_std = np.float32(-0.5)
    columns = {name: np.empty((length, num_envs), np.float32) for name in (ACTIONS, ACTION_LOGP, VF_PREDS, REWARDS)}
    columns[OBS] = np.empty((length, num_envs, 3), np.float32)
    flags = {name: np.zeros((length, num_envs), np.bool_) for name in (TERMINATED, TRUNCATED)}
    while True:
        for t in range(length):
            columns[OBS][t] = env.obs
            noise = rng.standard_normal(num_envs, np.float32)
            action = policy(env.obs) + noise * np.exp(log_std)
            columns[ACTIONS][t] = action
            columns[ACTION_LOGP][t] = -0.5 * noise * noise - log_std - np.float32(0.5 * math.log(2 * math.pi))
            columns[VF_PREDS][t] = value(env.obs)
            reward, over = env.step(action)
            columns[REWARDS][t] = reward
            flags[TRUNCATED][t] = over
        value(env.obs)
        yield length * num_envs


def rho(batch: Any) -> Any:
    """GAE, as PPO asks for it."""
    return gae(batch, 0.99, 0.95)


def actor(num_envs: int, seed: int) -> ActorCriticActor:
    """The actor of a PPO policy."""
    spaces = build_env("batched:pendulum", 1, {}).groups[DEFAULT_GROUP]
    model = ModelConfig(hidden=HIDDEN)
    weights = Architecture.of(*spaces, model).init(np.random.default_rng(seed))
    return ActorCriticActor(*spaces, model, weights, rho=rho)


def evaluator(num_envs: int, seed: int) -> rlcore.PolicyEvaluator:
    return rlcore.PolicyEvaluator(
        env="batched:pendulum",
        graph=actor(num_envs, seed),
        num_envs=num_envs,
        collect=Fragment(steps(num_envs)),
        rng=seed,
    )


def ours(num_envs: int, seed: int) -> Iterator[int]:
    made = evaluator(num_envs, seed)
    while True:
        batch = made.sample()
        assert isinstance(batch, rlcore.SampleBatch) and LAST_VALUE in batch.cuts
        # Episodes' returns are fetched, as a run does.
        made.metrics()
        yield len(batch)


def environment(num_envs: int, seed: int) -> Iterator[int]:
    """The environment alone, with actions that are there already."""
    env, rng = build_env("batched:pendulum", num_envs, {}), np.random.default_rng(seed)
    env.reset(seed)
    actions = rng.uniform(-2, 2, (num_envs, 1)).astype(np.float32)
    slots = env.poll(None)[DEFAULT_GROUP].slot
    while True:
        for _ in range(steps(num_envs)):
            env.send({DEFAULT_GROUP: (slots, actions)})
            env.poll(None)
        yield steps(num_envs) * num_envs


def acting(num_envs: int, seed: int) -> Iterator[int]:
    """The actor alone, on observations that are there already."""
    policy, rng = actor(num_envs, seed), np.random.default_rng(seed)
    space = build_env("batched:pendulum", 1, {}).groups[DEFAULT_GROUP][1]
    obs = rng.uniform(-1, 1, (num_envs, 3)).astype(np.float32)
    every = np.arange(num_envs)
    rows = ActRows(every, np.zeros(num_envs, np.int64), np.zeros(num_envs, np.int32), np.zeros(num_envs, np.bool_))
    while True:
        for _ in range(steps(num_envs)):
            to_env(policy.act(obs, (), rows=rows, rng=rng).actions, space)
        yield steps(num_envs) * num_envs


def processing(num_envs: int, seed: int) -> Iterator[int]:
    """What is computed once a sample."""
    policy, made = actor(num_envs, seed), evaluator(num_envs, seed)
    batch = made.sample()
    assert isinstance(batch, rlcore.SampleBatch)
    raw = rlcore.SampleBatch({name: column for name, column in batch.rows.items() if name != VF_PREDS}, batch.cuts)
    while True:
        policy.postprocess(raw)
        yield len(raw)


def rates(tasks: dict[str, Callable[[int, int], Iterator[int]]], num_envs: int) -> dict[str, float]:
    """Steps a second of processor time, the medians of rounds in which all take their turn."""
    running = {name: task(num_envs, 1) for name, task in tasks.items()}
    found: dict[str, list[float]] = {name: [] for name in tasks}
    for task in running.values():
        next(task)
    for _ in range(ROUNDS):
        for name, task in running.items():
            begin, done = time.process_time(), 0
            while time.process_time() - begin < SECONDS:
                done += next(task)
            found[name].append(done / (time.process_time() - begin))
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> None:
    tasks = {"bare": bare, "ours": ours}
    by_size = {}
    for num_envs in SIZES:
        by_size[num_envs] = found = rates(tasks, num_envs)
        shown = {name: round(rate) for name, rate in found.items()}
        print(json.dumps({"envs": num_envs, **shown, "ratio": round(found["ours"] / found["bare"], 3)}), flush=True)
    best = {name: max(found[name] for found in by_size.values()) for name in tasks}
    print(json.dumps({"ratio_at_the_best_sizes": round(best["ours"] / best["bare"], 3), "target": 0.7}))
    parts = {"ours": ours, "environment": environment, "acting": acting, "processing": processing}
    own = {}
    for num_envs in (1, 1024):
        microseconds = {name: 1e6 / rate for name, rate in rates(parts, num_envs).items()}
        whole = microseconds.pop("ours")
        own[num_envs] = whole - sum(microseconds.values())
        shown_parts = {name: round(value, 3) for name, value in microseconds.items()}
        print(json.dumps({"envs": num_envs, "us_per_step": round(whole, 3), **shown_parts,
                          "bookkeeping": round(own[num_envs], 3)}))
    print(json.dumps({"bookkeeping_at_1024_of_that_at_1": round(own[1024] / own[1], 4), "target": 0.05}))


if __name__ == "__main__":
    main()
