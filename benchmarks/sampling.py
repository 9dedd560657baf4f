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
from rlcore.acting import ActorCriticActor, Architecture, ModelConfig
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


def bare_vector(envs: gymnasium.vector.VectorEnv[Any, Any, Any], seed: int) -> Iterator[int]:
    """A vector environment and the network; nothing is kept."""
    network = Network(seed)
    obs, _ = envs.reset(seed=seed)
    while True:
        for _ in range(HORIZON):
            obs, *_ = envs.step(network.act(obs))
        yield NUM_ENVS * HORIZON


def bare_list(make: Callable[[], Any], seed: int) -> Iterator[int]:
    """Environments in a Python list: what is left when the vector environment's own work is gone as well."""
    envs = [make() for _ in range(NUM_ENVS)]
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


def checked() -> Any:
    """As ``gymnasium.make`` gives it, with its passive checker."""
    return gymnasium.make(ENV_ID)


def unchecked() -> Any:
    """As rlcore makes it where it is named: what the checker looks at is checked for all copies at once."""
    return gymnasium.make(ENV_ID, disable_env_checker=True)


def sync_vector(make: Callable[[], Any]) -> gymnasium.vector.SyncVectorEnv:
    return gymnasium.vector.SyncVectorEnv(
        [make] * NUM_ENVS, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP
    )


def rho(batch: Any) -> Any:
    """GAE, as PPO asks for it."""
    return gae(batch, 0.99, 0.95)


def evaluator(env: Any, seed: int, **settings: Any) -> tuple[rlcore.PolicyEvaluator, ActorCriticActor]:
    """An evaluator that samples as in a PPO run: the actor of the policy, and rho."""
    probe = gymnasium.make(ENV_ID)
    model = ModelConfig(hidden=HIDDEN)
    spaces = (probe.observation_space, probe.action_space)
    weights = Architecture.of(*spaces, model).init(np.random.default_rng(seed))
    actor = ActorCriticActor(*spaces, model, weights, rho=rho)
    made = rlcore.PolicyEvaluator(
        env=env, env_settings=settings, graph=actor, num_envs=NUM_ENVS, collect=Fragment(HORIZON), rng=seed
    )
    return made, actor


def ours(env: Any, seed: int, **settings: Any) -> Iterator[int]:
    made, _ = evaluator(env, seed, **settings)
    while True:
        yield len(made.sample())


def environment_alone(make: Callable[[], Any], seed: int) -> Iterator[int]:
    """The environments stepped and reset in a plain loop with ready-made actions, as near to them as Python gets."""
    envs = [make() for _ in range(NUM_ENVS)]
    choices = np.random.default_rng(seed).integers(2, size=(HORIZON, NUM_ENVS)).tolist()
    for index, env in enumerate(envs):
        env.reset(seed=seed + index)
    while True:
        for actions in choices:
            for env, action in zip(envs, actions, strict=True):
                _, _, terminated, truncated, _ = env.step(action)
                if terminated or truncated:
                    env.reset()
        yield NUM_ENVS * HORIZON


def where_the_time_goes(seed: int) -> dict[str, float]:
    """Shares of sampling: the environments themselves, acting (values and rho included), everything else of ours.

    By CPU time. The environments are measured apart, in turns with sampling: a clock around every step would count as
    bookkeeping.
    """
    made, actor = evaluator(ENV_ID, seed)
    spent = {"acting": 0.0}
    for name in ("act", "postprocess"):
        setattr(actor, name, _timed(getattr(actor, name), spent, "acting"))
    alone = environment_alone(unchecked, seed)
    made.sample()
    next(alone)
    rounds = []
    for _ in range(ROUNDS):
        environment, _ = seconds_per_step(alone, time.process_time)
        spent["acting"] = 0.0
        samples = (len(made.sample()) for _ in itertools.count())
        total, steps = seconds_per_step(samples, time.process_time)
        acting = spent["acting"] / steps
        rounds.append((environment / total, acting / total, 1.0 - (environment + acting) / total))
    environment, acting, bookkeeping = (statistics.median(parts) for parts in zip(*rounds, strict=True))
    return {"environment": environment, "acting": acting, "bookkeeping": bookkeeping}


def _timed(function: Callable[..., Any], spent: dict[str, float], key: str) -> Callable[..., Any]:
    def timed(*arguments: Any, **named: Any) -> Any:
        started = time.process_time()
        result = function(*arguments, **named)
        spent[key] += time.process_time() - started
        return result

    return timed


def measure(contestants: dict[str, Iterator[int]]) -> dict[str, list[float]]:
    """Environment steps per second of each, in turns, so that all see the same machine."""
    speeds: dict[str, list[float]] = {name: [] for name in contestants}
    for contestant in contestants.values():
        next(contestant)
    for _ in range(ROUNDS):
        for name, contestant in contestants.items():
            speeds[name].append(1.0 / seconds_per_step(contestant)[0])
    return speeds


def seconds_per_step(
    contestant: Iterator[int], clock: Callable[[], float] = time.perf_counter
) -> tuple[float, int]:
    """Over one turn; and how many environment steps there were."""
    started, steps = clock(), 0
    while clock() - started < SECONDS:
        steps += next(contestant)
    return (clock() - started) / steps, steps


def rows(seed: int) -> Iterator[dict[str, Any]]:
    """One row for each contestant, with its share of what a bare loop of the same environments reaches; then shares."""
    limit, limit_unchecked, limit_native = "bare SyncVectorEnv", "bare list, unchecked", "bare native vector"
    native = gymnasium.make_vec(ENV_ID, NUM_ENVS, vectorization_mode="vector_entry_point")
    entries: list[tuple[str, str, Iterator[int]]] = [
        (limit, limit, bare_vector(sync_vector(checked), seed)),
        ("bare list", limit, bare_list(checked, seed)),
        ("rlcore, gymnasium.make", limit, ours(checked, seed)),
        ("Stable-Baselines3", limit, stable_baselines.sampler(NUM_ENVS, HORIZON, seed)),
        ("bare SyncVectorEnv, unchecked", limit_unchecked, bare_vector(sync_vector(unchecked), seed)),
        (limit_unchecked, limit_unchecked, bare_list(unchecked, seed)),
        ("rlcore, env by name", limit_unchecked, ours(ENV_ID, seed)),
        (limit_native, limit_native, bare_vector(native, seed)),
        ("rlcore, native vector", limit_native, ours(ENV_ID, seed, vectorization="native")),
    ]
    speeds = measure({name: contestant for name, _, contestant in entries})
    for name, base, _ in entries:
        own = speeds[name]
        yield {
            "task": "sampling",
            "contestant": name,
            "num_envs": NUM_ENVS,
            "steps_per_s": round(statistics.median(own), 1),
            "slowest": round(min(own), 1),
            "fastest": round(max(own), 1),
            "limit": base,
            "of_limit": round(statistics.median(a / b for a, b in zip(own, speeds[base], strict=True)), 3),
        }
    shares = where_the_time_goes(seed)
    yield {"task": "sampling_shares", "contestant": "rlcore", **{name: round(part, 3) for name, part in shares.items()}}


if __name__ == "__main__":
    torch.set_num_threads(1)
    for row in rows(seed=0):
        print(json.dumps(row), flush=True)
