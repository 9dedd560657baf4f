"""Sampling alone, acting included: how near ours comes to a bare loop over the same environments and a network."""

from __future__ import annotations

import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import stable_baselines
import torch
from numpy.typing import NDArray
from recipe import ENV_ID, HIDDEN

import rlcore
from rlcore.acting import ActorCriticActor, ModelConfig, init_actor_critic
from rlcore.returns import gae
from rlcore.sampling.collect import Fragment

NUM_ENVS = 64
HORIZON = 64
SECONDS = 0.7
ROUNDS = 7


class Network:
    """Two tanh layers and a draw, in numpy: the least that acting takes."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        sizes = [4, *HIDDEN, 2]
        shapes = itertools.pairwise(sizes)
        self.layers = [(self.rng.normal(0, 0.1, shape).astype(np.float32), np.float32(0)) for shape in shapes]

    def act(self, obs: NDArray[np.float32]) -> NDArray[np.int64]:
        for weight, bias in self.layers[:-1]:
            obs = np.tanh(obs @ weight + bias)
        weight, bias = self.layers[-1]
        logits = obs @ weight + bias
        return (logits + self.rng.gumbel(size=logits.shape)).argmax(axis=1)


def bare_vector(seed: int) -> Iterator[int]:
    """Gymnasium's SyncVectorEnv and the network; nothing is kept."""
    envs = gymnasium.vector.SyncVectorEnv(
        [lambda: gymnasium.make(ENV_ID)] * NUM_ENVS, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP
    )
    network = Network(seed)
    obs, _ = envs.reset(seed=seed)
    while True:
        for _ in range(HORIZON):
            obs, *_ = envs.step(network.act(obs))
        yield NUM_ENVS * HORIZON


def bare_list(seed: int) -> Iterator[int]:
    """The same environments in a Python list: what is left when the vector environment's own work is gone as well."""
    envs = [gymnasium.make(ENV_ID) for _ in range(NUM_ENVS)]
    network = Network(seed)
    obs = np.empty((NUM_ENVS, 4), np.float32)
    for index, env in enumerate(envs):
        obs[index] = env.reset(seed=seed + index)[0]
    while True:
        for _ in range(HORIZON):
            for index, (env, action) in enumerate(zip(envs, network.act(obs).tolist(), strict=True)):
                after, _, terminated, truncated, _ = env.step(action)
                obs[index] = env.reset()[0] if terminated or truncated else after
        yield NUM_ENVS * HORIZON


def rho(batch: Any) -> Any:
    """GAE, as PPO asks for it."""
    return gae(batch, 0.99, 0.95)


def evaluator(env: Any, seed: int) -> tuple[rlcore.PolicyEvaluator, ActorCriticActor]:
    """An evaluator that samples as in a PPO run: the actor of the policy, and rho."""
    probe = gymnasium.make(ENV_ID)
    model = ModelConfig(hidden=HIDDEN)
    spaces = (probe.observation_space, probe.action_space)
    weights = init_actor_critic(*spaces, model, np.random.default_rng(seed))
    actor = ActorCriticActor(*spaces, model, weights, rho=rho)
    made = rlcore.PolicyEvaluator(env=env, graph=actor, num_envs=NUM_ENVS, collect=Fragment(HORIZON), rng=seed)
    return made, actor


def ours(env: Any, seed: int) -> Iterator[int]:
    made, _ = evaluator(env, seed)
    while True:
        yield len(made.sample())


class Clocked(gymnasium.Wrapper[Any, Any, Any, Any]):
    """CartPole that adds up the seconds spent in it, over all copies."""

    seconds = 0.0

    def step(self, action: Any) -> Any:
        started = time.perf_counter()
        result = self.env.step(action)
        Clocked.seconds += time.perf_counter() - started
        return result

    def reset(self, **options: Any) -> Any:
        started = time.perf_counter()
        result = self.env.reset(**options)
        Clocked.seconds += time.perf_counter() - started
        return result


def where_the_time_goes(seed: int) -> dict[str, float]:
    """Shares of sampling: the environments themselves, acting with rho and values, and everything else of ours."""
    made, actor = evaluator(lambda: Clocked(gymnasium.make(ENV_ID)), seed)
    spent = {"acting": 0.0}
    for name in ("act", "postprocess"):
        setattr(actor, name, _timed(getattr(actor, name), spent, "acting"))
    made.sample()
    Clocked.seconds, spent["acting"] = 0.0, 0.0
    started = time.perf_counter()
    while time.perf_counter() - started < 3 * SECONDS:
        made.sample()
    total = time.perf_counter() - started
    shares = {"environment": Clocked.seconds / total, "acting": spent["acting"] / total}
    return {**shares, "bookkeeping": 1.0 - sum(shares.values())}


def _timed(function: Callable[..., Any], spent: dict[str, float], key: str) -> Callable[..., Any]:
    def timed(*arguments: Any, **named: Any) -> Any:
        started = time.perf_counter()
        result = function(*arguments, **named)
        spent[key] += time.perf_counter() - started
        return result

    return timed


def measure(contestants: dict[str, Iterator[int]]) -> dict[str, list[float]]:
    """Environment steps per second of each, in turns, so that all see the same machine."""
    speeds: dict[str, list[float]] = {name: [] for name in contestants}
    for contestant in contestants.values():
        next(contestant)
    for _ in range(ROUNDS):
        for name, contestant in contestants.items():
            started, steps = time.perf_counter(), 0
            while time.perf_counter() - started < SECONDS:
                steps += next(contestant)
            speeds[name].append(steps / (time.perf_counter() - started))
    return speeds


def rows(seed: int) -> Iterator[dict[str, Any]]:
    """One row for each contestant, then one of shares."""
    speeds = measure(
        {
            "bare loop, SyncVectorEnv": bare_vector(seed),
            "bare loop, list": bare_list(seed),
            "rlcore": ours(lambda: gymnasium.make(ENV_ID), seed),
            "rlcore, env by name": ours(ENV_ID, seed),
            "Stable-Baselines3": stable_baselines.sampler(NUM_ENVS, HORIZON, seed),
        }
    )
    bare = speeds["bare loop, SyncVectorEnv"]
    for name, own in speeds.items():
        ratio = statistics.median(one / other for one, other in zip(own, bare, strict=True))
        yield {
            "task": "sampling",
            "contestant": name,
            "num_envs": NUM_ENVS,
            "steps_per_s": round(statistics.median(own), 1),
            "slowest": round(min(own), 1),
            "fastest": round(max(own), 1),
            "of_bare_loop": round(ratio, 3),
        }
    shares = where_the_time_goes(seed)
    yield {"task": "sampling_shares", "contestant": "rlcore", **{name: round(part, 3) for name, part in shares.items()}}


if __name__ == "__main__":
    torch.set_num_threads(1)
    for row in rows(seed=0):
        print(json.dumps(row), flush=True)
